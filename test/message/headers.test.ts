import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { RequestHead } from "../../src/plugin.ts";
import {
  fieldLines,
  requestFields,
  requestRules,
  responseFields,
  responseRules,
  trailerFields,
} from "../../src/message/headers.ts";

const direct = { address: "192.0.2.7", trusted: false };

/** A request as the core passes it on: `rawHeaders` as received, `headers` by lower-case name. */
function request(
  rawHeaders: readonly string[],
  peer: RequestHead["peer"] = direct,
  address = peer.address,
): RequestHead {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? "").toLowerCase();
    const value = rawHeaders[at + 1] ?? "";
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
  }
  return {
    method: "GET",
    path: "/",
    query: "",
    target: "/",
    headers,
    rawHeaders,
    params: {},
    address,
    peer,
    hasBody: false,
  };
}

/** `Name: value` lines as the flat list that parsers make of them. */
function flat(...lines: readonly string[]): string[] {
  return lines.flatMap((line) => {
    const colon = line.indexOf(": ");
    return [line.slice(0, colon), line.slice(colon + 2)];
  });
}

const ours = [
  "x-forwarded-for",
  "192.0.2.7",
  "x-forwarded-proto",
  "http",
  "x-forwarded-host",
  "example.org",
  "via",
  "1.1 sluice",
];
const host = ["Host", "example.org"];

test("order, case and duplicates of request fields are kept", () => {
  const received = ["Accept", "a", "X-B", "1", "cookie", "k=v", "x-b", "2", "ACCEPT", "b"];
  assert.deepEqual(requestFields(request([...host, ...received]), requestRules()), [
    ...received,
    ...ours,
  ]);
});

test("hop-by-hop fields, framing, Host and Expect are not forwarded", () => {
  const received = flat(
    "Connection: keep-alive",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: x",
    "Proxy-Authorization: Basic x",
    "TE: gzip",
    "Transfer-Encoding: chunked",
    "Upgrade: h2c",
    "HTTP2-Settings: x",
    "Content-Length: 3",
    "Trailer: x",
    "Expect: 100-continue",
  );
  assert.deepEqual(requestFields(request([...host, ...received]), requestRules()), ours);
});

test("fields that Connection names are dropped in any case, but never the gateway's own", () => {
  const received = ["connection", "X-Secret , via,x-forwarded-for", "x-SECRET", "1", "x-open", "2"];
  const sent = requestFields(request([...host, ...received]), requestRules());
  assert.deepEqual(sent, ["x-open", "2", ...ours]);
});

test("only `trailers` of TE is forwarded", () => {
  const sent = requestFields(request([...host, "TE", "gzip;q=0.5, Trailers"]), requestRules());
  assert.deepEqual(sent, ["te", "trailers", ...ours]);
});

test("the API key is not forwarded unless the operator configures it", () => {
  const raw = [...host, "AUTHORIZATION", "Bearer gateway_dev_x"];
  assert.deepEqual(requestFields(request(raw), requestRules()), ours);
  assert.deepEqual(requestFields(request(raw), requestRules({}, true)), [...raw.slice(2), ...ours]);
});

test("a client's claims about its own origin are dropped", () => {
  const forged = flat(
    "X-Forwarded-For: 10.0.0.1",
    "x-forwarded-proto: https",
    "X-Forwarded-Host: bank",
    "Forwarded: for=10.0.0.1",
    "X-Real-IP: 10.0.0.1",
    "X-Forwarded-Port: 443",
  );
  assert.deepEqual(requestFields(request([...host, ...forged]), requestRules()), ours);
});

test("with a trusted proxy, the verified hops, its scheme and its host are forwarded", () => {
  const peer = { address: "10.0.0.2", trusted: true };
  const raw = [
    ...host,
    ...flat("X-Forwarded-For: 203.0.113.9, 198.51.100.4, 10.0.0.1"),
    ...flat("X-Forwarded-Proto: https", "X-Forwarded-Host: api.example.org"),
  ];
  assert.deepEqual(
    requestFields(request(raw, peer, "198.51.100.4"), requestRules()),
    flat(
      "x-forwarded-for: 198.51.100.4, 10.0.0.1, 10.0.0.2",
      "x-forwarded-proto: https",
      "x-forwarded-host: api.example.org",
      "via: 1.1 sluice",
    ),
  );
});

test("an address that is written differently in the chain is still forwarded", () => {
  const peer = { address: "10.0.0.2", trusted: true };
  const raw = ["X-Forwarded-For", "::ffff:198.51.100.4"];
  const sent = requestFields(request(raw, peer, "198.51.100.4"), requestRules());
  assert.deepEqual(sent.slice(0, 2), ["x-forwarded-for", "198.51.100.4, 10.0.0.2"]);
});

test("a Via of the client is kept and extended", () => {
  const sent = requestFields(request([...host, "Via", "1.0 fred"]), requestRules());
  assert.deepEqual(sent, ["Via", "1.0 fred", ...ours]);
});

test("the operator's fields replace the client's, whatever their case", () => {
  const rules = requestRules({ set: { "X-Tenant": "a", host: "inner" }, remove: ["Cookie"] });
  const raw = [...host, "x-tenant", "forged", "X-TENANT", "forged", "cookie", "k=v", "accept", "a"];
  assert.deepEqual(requestFields(request(raw), rules), [
    ...flat("accept: a"),
    ...ours,
    ...flat("X-Tenant: a", "host: inner"),
  ]);
});

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,35}$/);
const value = fc.stringMatching(/^[\x21-\x7e]{0,20}$/);

test("property: no field that Connection names is forwarded, and every other one is, in order", () => {
  const reserved = new Set(["host", "authorization", "content-length", "expect", "http2-settings"]);
  const hop = /^(connection|keep-alive|proxy-.*|te|transfer-encoding|upgrade|trailer)$/;
  const origin = /^(forwarded|x-forwarded-.*|x-real-ip)$/;
  fc.assert(
    fc.property(
      fc.array(fc.tuple(token, value), { maxLength: 12 }),
      fc.array(fc.nat(11), { maxLength: 4 }),
      (pairs, named) => {
        const plain = pairs.filter(([name]) => {
          const lower = name.toLowerCase();
          return !reserved.has(lower) && !hop.test(lower) && !origin.test(lower);
        });
        const options = named.map((at) => plain[at]?.[0].toUpperCase()).filter((name) => name);
        const hidden = new Set(options.map((name) => name?.toLowerCase()));
        const raw = ["Connection", options.join(", ") || "keep-alive", ...plain.flat()];
        const kept = plain.filter(([name]) => !hidden.has(name.toLowerCase()));
        const sent = requestFields(request([...host, ...raw]), requestRules());
        assert.deepEqual(sent, [...kept.flat(), ...ours]);
      },
    ),
    { numRuns: 300 },
  );
});

function answer(
  received: readonly string[],
  options: { method?: string; status?: number; connection?: string } = {},
): string[] {
  const { method = "GET", status = 200 } = options;
  const valueOf = (name: string): string | undefined => {
    const at = received.findIndex((part, i) => i % 2 === 0 && part.toLowerCase() === name);
    return at === -1 ? undefined : received[at + 1]?.toLowerCase();
  };
  const hasLength = valueOf("content-length") !== undefined;
  const head = { method, status, connection: valueOf("connection"), hasLength };
  return responseFields(received, head, responseRules());
}

const via = ["via", "1.1 sluice"];

test("order, case and duplicates of response fields are kept, byte for byte", () => {
  const received = ["Set-Cookie", "a=1", "X-Ä", "ÿ", "set-cookie", "b=2", "Content-Length", "5"];
  assert.deepEqual(answer(received), [...received, ...via]);
});

test("hop-by-hop fields of an answer are not forwarded", () => {
  const received = flat(
    "Connection: close, X-Hop",
    "Keep-Alive: timeout=5",
    "x-hop: 1",
    "Transfer-Encoding: Chunked",
    "Upgrade: h2c",
    "Proxy-Authenticate: Basic",
  );
  assert.deepEqual(answer(received), via);
});

test("a 204 announces no length; an answer to HEAD keeps its own", () => {
  assert.deepEqual(answer(["Content-Length", "0"], { status: 204 }), via);
  const length = ["Content-Length", "5"];
  assert.deepEqual(answer(length, { method: "HEAD" }), [...length, ...via]);
});

test("trailers are announced only where a chunked body can carry them", () => {
  const trailer = ["Trailer", "x-sum"];
  assert.deepEqual(answer(trailer), [...trailer, ...via]);
  assert.deepEqual(answer(trailer, { method: "HEAD" }), via);
  assert.deepEqual(answer(trailer, { status: 304 }), via);
  const length = ["Content-Length", "5"];
  assert.deepEqual(answer([...trailer, ...length]), [...length, ...via]);
});

test("trailers cannot smuggle framing, credentials or cookies", () => {
  const raw = ["X-Sum", "1", "Content-Length", "9", "Set-Cookie", "a=b", "Transfer-Encoding", "x"];
  assert.deepEqual(trailerFields(raw), ["X-Sum", "1"]);
  assert.equal(trailerFields([]), undefined);
});

test("fields become lines only if nothing in them could end a line", () => {
  assert.equal(fieldLines(["X-A", "1", "b", "\xff\t"]), "X-A: 1\r\nb: \xff\t\r\n");
  assert.equal(fieldLines([]), "");
  // U+010D would become a carriage return if it were sent as one byte.
  for (const text of ["a\r\nb: c", "a\n", "a\r", "a\0", "\u010d", "\x7f"]) {
    assert.equal(fieldLines(["X-A", text]), undefined, JSON.stringify(text));
  }
  for (const name of ["", "X A", "X:", "X\r\n", "\u010d"]) {
    assert.equal(fieldLines([name, "1"]), undefined, JSON.stringify(name));
  }
});
