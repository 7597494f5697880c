/**
 * Sends the same bytes to the fast path and to node:http: several requests at once, good and malformed ones, cut into
 * pieces at any place. Both connections must get the same answers.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import * as fc from "fast-check";
import type { SurfaceHooks } from "../../../src/plugin.ts";
import { serve } from "../../pipeline/harness.ts";
import { open, openSlow, readUntil, withoutTime } from "../../http/fast-path/raw-requests.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget } from "../target.ts";

const bodyText = fc.string({ unit: fc.constantFrom("a", "b", "\r", "\n", " "), maxLength: 40 });
const target = fc.constantFrom("/x", "/x?a=1", "/missing", "/healthz", "*", "http://a/x");
const method = fc.constantFrom("GET", "POST", "POST", "PUT", "HEAD", "OPTIONS");
const goodFields = [
  "x-a: 1",
  "connection: keep-alive",
  "connection: close",
  "proxy-connection: close",
  "authorization: Bearer a",
  "cookie: a=b",
];
/** Fields that contradict the body, that ask for more than an answer, or that are not fields. */
const oddFields = [
  "X-A: 2",
  "expect: 100-continue",
  "content-length: 3",
  "transfer-encoding: chunked",
  "upgrade: h2c",
  "x-odd : a",
  "x-fold: a\r\n b",
  "host: elsewhere",
];

/** Several requests, each with a body as its framing announces it, unless `fields` contradict that. */
function pipelined(fields: readonly string[]): fc.Arbitrary<Buffer> {
  const framing = fc.constantFrom("sized", "sized", "chunked", "none");
  const more = fc.uniqueArray(fc.constantFrom(...fields), { maxLength: 2 });
  const request = fc
    .tuple(method, target, more, bodyText, framing)
    .map(([verb, path, further, body, framed]) => {
      const lines = [`${verb} ${path} HTTP/1.1`, "host: a", ...further];
      if (framed === "sized") lines.push(`content-length: ${body.length}`);
      if (framed === "chunked") lines.push("transfer-encoding: chunked");
      const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
      const sent = framed === "sized" ? body : framed === "chunked" ? `${chunk}0\r\n\r\n` : "";
      return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${sent}`, "latin1");
    });
  return fc.array(request, { minLength: 1, maxLength: 4 }).map((all) => Buffer.concat(all));
}

/** Latin-1 text, which is easier to read in a failure than bytes, and the positions at which it is cut. */
function conversation(bytes: fc.Arbitrary<Buffer>): fc.Arbitrary<[string, number[]]> {
  const text = bytes.map((each) => each.toString("latin1"));
  return fc.tuple(text, fc.array(fc.nat(300), { maxLength: 4 }));
}

const good = conversation(pipelined(goodFields));
const odd = conversation(mutantsOf(pipelined([...goodFields, ...oddFields]), 2));

const echo: SurfaceHooks = {
  body: { bytes: 1_000 },
  answer: ({ request: { method: verb, path, query, headers }, body }) => ({
    status: 200,
    headers: ["content-type", "application/json"],
    body: JSON.stringify({
      verb,
      path,
      query,
      headers,
      body: createHash("sha256")
        .update(body ?? "")
        .digest("hex"),
    }),
  }),
};

export const connections: FuzzTarget = {
  name: "connections",
  async run(random) {
    await using served = await serve([
      { path: "/x", methods: ["GET", "POST", "PUT", "OPTIONS"], surface: echo },
    ]);
    const both = async ([text, cuts]: [string, number[]]): Promise<[string[], string[]]> => {
      const bytes = Buffer.from(text, "latin1");
      const slow = await answers(served.port, await openSlow(served.port), [bytes]);
      return [await answers(served.port, await open(served.port), pieces(bytes, cuts)), slow];
    };
    await random.check("the fast path answers as node:http does", good, 120, async (given) => {
      const [fast, slow] = await both(given);
      assert.deepEqual(fast, slow);
    });
    const title = "the fast path answers odd and damaged requests as node:http does";
    await random.check(title, odd, 150, async (given) => {
      const [fast, slow] = await both(given);
      // The last request may lack a part of its body. A surface that does not wait for the body answers it.
      const common = Math.min(fast.length, slow.length);
      assert.deepEqual(fast.slice(0, common), slow.slice(0, common));
      assert.ok(Math.max(fast.length, slow.length) - common <= 1, [...fast, "", ...slow].join(""));
    });
    assert.deepEqual(served.errors, []);
    assert.equal(served.listener.running, 0);
  },
};

function pieces(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b)];
  return places.map((from, at) => bytes.subarray(from, places[at + 1] ?? bytes.length));
}

async function answers(port: number, socket: Socket, sent: readonly Buffer[]): Promise<string[]> {
  socket.setNoDelay(true);
  const closed = readUntil(socket, () => false);
  for (const piece of sent) {
    if (!socket.writable) break;
    if (piece.length > 0) socket.write(piece);
    await serverHasRead(port);
  }
  socket.end();
  const all = withoutTime(await closed).split(/(?=HTTP\/1\.1 \d{3} )/);
  // While node:http answers a request that precedes malformed bytes, it closes the connection without a refusal.
  return all.filter((each) => !each.includes('"malformed request"'));
}

/** A second connection is accepted and answered after the server has read what was written before. */
async function serverHasRead(port: number): Promise<void> {
  const socket = await open(port);
  socket.end("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  socket.resume();
  await once(socket, "close");
}
