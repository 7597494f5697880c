/** Every kind of answer equals what node:http writes, byte for byte. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exchange, Reply, SurfaceHooks } from "../../../src/plugin.ts";
import { serve } from "../../pipeline/harness.ts";
import { cameFast, exchange, open, openSlow, readUntil } from "./raw-requests.ts";

const request = (path = "/x", fields = "connection: close\r\n"): string =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\n${fields}content-length: 4\r\n\r\nbody`;

const streams =
  (write: (x: Exchange) => Promise<void>): SurfaceHooks["answer"] =>
  async (x) => {
    await write(x);
    return undefined;
  };

const surfaces: Readonly<Record<string, SurfaceHooks["answer"]>> = {
  "a text": () => ({ status: 200, headers: ["content-type", "text/plain"], body: "hello" }),
  "a text beyond ASCII": () => ({ status: 200, body: "h\u00e9llo ☃" }),
  bytes: () => ({ status: 201, body: Buffer.from([0, 255, 13, 10]) }),
  "many bytes": () => ({ status: 200, body: Buffer.alloc(300_000, "ab") }),
  "a long text": () => ({ status: 200, body: "ab".repeat(150_000) }),
  nothing: () => ({ status: 200 }),
  "no content": () => ({ status: 204 }),
  "not modified": () => ({ status: 304, headers: ["etag", '"a"'] }),
  "no content, and a body": () => ({ status: 204, body: "none of it" }),
  "not modified, and a body": () => ({ status: 304, body: Buffer.from("none of it") }),
  "a status without a name": () => ({ status: 299, body: "odd" }),
  "fields of its own": () => ({
    status: 200,
    headers: ["Date", "Thu, 01 Jan 1970 00:00:00 GMT", "x-a", "1", "X-A", "2", "set-cookie", "a=b"],
    body: "x",
  }),
  "a connection that it closes": () => ({
    status: 200,
    headers: ["Connection", "close"],
    body: "",
  }),
  "an invalid value": () => ({ status: 200, headers: ["x-a", "a\r\nb: c"], body: "x" }),
  "an invalid name": () => ({ status: 200, headers: ["x a", "b"], body: "x" }),
  "an invalid status": () => ({ status: 1000, body: "x" }),
  "a throw": () => {
    throw new Error("broken");
  },
  "the body that came": (x) => ({ status: 200, body: x.body ?? "" }),
  chunks: streams(async (x) => {
    const sink = await x.stream(200, ["content-type", "text/event-stream"]);
    sink.write("data: a\n\n");
    sink.write(Buffer.from("data: b\n\n"));
    sink.write("data: \u00e9☃\n\n");
    sink.write(Buffer.alloc(20_000, "x"));
    await sink.end(undefined, Buffer.from("data: [DONE]\n\n"));
  }),
  "chunks with a trailer": streams(async (x) => {
    const sink = await x.stream(200, ["trailer", "x-sum"]);
    sink.write("one");
    await sink.end(["x-sum", "1"]);
  }),
  "no chunks": streams(async (x) => (await x.stream(200, [])).end()),
  "a stream of known length": streams(async (x) => {
    const sink = await x.stream(200, ["content-length", "6"]);
    sink.write(Buffer.from("abc"));
    sink.write("def");
    await sink.end();
  }),
  "a stream that breaks": streams(async (x) => {
    const sink = await x.stream(200, []);
    sink.write("a part");
    sink.fail("upstreamFailed");
  }),
  "a stream without content": streams(async (x) => (await x.stream(204, [])).end()),
  "a body on a status without a body": streams(async (x) => {
    const sink = await x.stream(204, []);
    sink.write("none of it");
    await sink.end(["x-sum", "1"], Buffer.from("nor this"));
  }),
  "a trailer with an invalid name": streams(async (x) => {
    const sink = await x.stream(200, ["trailer", "x-sum"]);
    await sink.end(["x-sum: 1\r\n\r\nHTTP/1.1 200 OK\r\nx", "1"]);
  }),
  "hints with an invalid name": (x) => {
    x.informational(103, ["link", "</a>; rel=preload", "x\r\n\r\nHTTP/1.1 200 OK\r\nx", "1"]);
    return { status: 200, body: "x" };
  },
  "hints before the answer": (x) => {
    x.informational(103, ["link", "</a>; rel=preload", "x-hint", "1"]);
    return { status: 200, body: "x" };
  },
};

test("the answer is the same with and without the fast path", async (t) => {
  const ways: boolean[] = [];
  const routes = Object.entries(surfaces).map(([what, answer], at) => {
    const surface: SurfaceHooks = {
      body: { bytes: 1000 },
      answer: (x) => {
        ways.push(cameFast(x));
        return answer(x);
      },
    };
    return { what, path: `/${at}`, methods: ["POST"], surface };
  });
  await using served = await serve(routes);
  await using servedSlow = await serve(routes, { server: { fastPath: false } });
  for (const { what, path } of routes) {
    await t.test(what, async () => {
      const slow = await exchange(await openSlow(served.port), request(path));
      const fast = await exchange(await open(served.port), request(path));
      const switchedOff = await exchange(await open(servedSlow.port), request(path));
      // The head of a broken stream may or may not have left.
      if (what === "a stream that breaks") {
        for (const text of [fast, switchedOff]) assert.doesNotMatch(text, /\r\n0\r\n\r\n/);
      } else {
        assert.equal(comparable(fast), comparable(slow));
        assert.equal(comparable(switchedOff), comparable(slow));
      }
      assert.deepEqual(ways.splice(0), [false, true, false]);
    });
  }
});

/**
 * Removes what may differ: chunk boundaries, the status text after a failure, and a field that node:http capitalizes.
 */
function comparable(answer: string): string {
  const [head = "", ...rest] = answer
    .replace("500 OK", "500 Internal Server Error")
    .replace("\r\nLink: ", "\r\nlink: ")
    .split(/(?<=\r\n\r\n)/);
  let body = rest.join("");
  if (!head.includes("Transfer-Encoding: chunked")) return head + body;
  let whole = "";
  for (;;) {
    const [line = "", size = ""] = /^([0-9a-f]+)\r\n/.exec(body) ?? [];
    assert.notEqual(line, "", "this is no chunk");
    const end = line.length + Number.parseInt(size, 16);
    if (size === "0") return `${head}${whole}|${body}`;
    whole += body.slice(line.length, end);
    assert.equal(body.slice(end, end + 2), "\r\n");
    body = body.slice(end + 2);
  }
}

test("Transfer-Encoding is sent once, even if the surface sets it too", async () => {
  const answer = streams(async (x) => {
    const sink = await x.stream(200, ["transfer-encoding", "chunked"]);
    sink.write("one");
    await sink.end();
  });
  await using served = await serve([{ path: "/x", surface: { answer } }]);
  const text = await exchange(await open(served.port), request());
  assert.equal(text.toLowerCase().split("transfer-encoding: chunked").length, 2);
  assert.match(text, /\r\n\r\n3\r\none\r\n0\r\n\r\n$/);
});

test("a field with characters beyond ASCII is sent as latin1, whatever the body is", async () => {
  const surface: SurfaceHooks = {
    answer: () => ({ status: 200, headers: ["x-name", "caf\xe9"], body: "☃" }),
  };
  await using served = await serve([{ path: "/x", surface }]);
  const answer = await exchange(await open(served.port), request());
  assert.match(answer, /^x-name: caf\xe9\r$/m);
  assert.match(answer, /\r\n\r\n\xe2\x98\x83$/);
});

test("kept connections, unknown paths, wrong methods and large bodies are answered the same with and without the fast path", async () => {
  const surface: SurfaceHooks = {
    body: { bytes: 3 },
    answer: (): Reply => ({ status: 200, body: "x" }),
  };
  await using served = await serve([{ path: "/x", methods: ["POST"], surface }]);
  const requests = [
    request("/x", ""),
    request("/none", ""),
    request("/x", "").replace("POST", "GET"),
    "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n",
    "DELETE /readyz HTTP/1.1\r\nhost: a\r\nX-Request-Id: mine\r\n\r\n",
    "POST /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc",
  ];
  const answers = async (socket: Awaited<ReturnType<typeof open>>): Promise<string> => {
    let all = "";
    for (const each of requests.slice(0, -1)) {
      socket.write(each);
      all += await readUntil(socket, (text) => isWhole(text));
    }
    return without(all) + (await exchange(socket, requests.at(-1) ?? ""));
  };
  const slow = await answers(await openSlow(served.port));
  const fast = await answers(await open(served.port));
  assert.equal(fast, slow);
  assert.match(fast, /Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n/);
});

function without(text: string): string {
  return text
    .replaceAll(/^Date: .*\r$/gm, "")
    .replaceAll(/^x-request-id: [0-9a-f-]{36}\r$/gm, "x-request-id: one\r");
}

function isWhole(text: string): boolean {
  const end = text.indexOf("\r\n\r\n");
  const length = /^content-length: (\d+)\r$/im.exec(text)?.[1];
  return end !== -1 && text.length >= end + 4 + Number(length);
}
