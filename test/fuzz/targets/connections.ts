/**
 * The same bytes on a connection of the fast path and on one of node:http: several requests in one go, good and
 * malformed ones, cut into pieces at any place. Both connections must get the same answers.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import * as fc from "fast-check";
import type { SurfaceHooks } from "../../../src/plugin.ts";
import { serve } from "../../pipeline/harness.ts";
import { open, openSlow, readUntil, withoutTime } from "../../server/fast-path/both-ways.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget } from "../target.ts";

const bodyText = fc.string({ unit: fc.constantFrom("a", "b", "\r", "\n", " "), maxLength: 40 });
const target = fc.constantFrom("/x", "/x?a=1", "/missing", "/healthz", "*", "http://a/x");
const method = fc.constantFrom("GET", "POST", "POST", "PUT", "HEAD", "OPTIONS", "get");
const fields = fc.array(
  fc.constantFrom(
    "x-a: 1",
    "X-A: 2",
    "connection: keep-alive",
    "connection: close",
    "proxy-connection: close",
    "expect: 100-continue",
    "authorization: Bearer a",
    "cookie: a=b",
    "content-length: 3",
    "transfer-encoding: chunked",
    "upgrade: h2c",
    "x-odd : a",
    "x-fold: a\r\n b",
    "host: elsewhere",
  ),
  { maxLength: 2 },
);

/** A request with a body of the right length; its further fields may contradict that. */
const request = fc
  .tuple(method, target, fields, bodyText, fc.constantFrom("sized", "sized", "chunked", "none"))
  .map(([verb, path, more, body, framing]) => {
    const lines = [`${verb} ${path} HTTP/1.1`, "host: a", ...more];
    if (framing === "sized") lines.push(`content-length: ${body.length}`);
    if (framing === "chunked") lines.push("transfer-encoding: chunked");
    const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
    const sent = framing === "sized" ? body : framing === "chunked" ? `${chunk}0\r\n\r\n` : "";
    return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${sent}`, "latin1");
  });
const pipelined = fc
  .array(request, { minLength: 1, maxLength: 4 })
  .map((requests) => Buffer.concat(requests));
/** Latin-1 text, which is printed more readably than bytes, and where it is cut. */
const conversation = fc.tuple(
  fc
    .oneof({ weight: 2, arbitrary: pipelined }, mutantsOf(pipelined, 2))
    .map((bytes) => bytes.toString("latin1")),
  fc.array(fc.nat(300), { maxLength: 4 }),
);

/** What a request was read as. */
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
    const title = "a connection of the fast path gets the answers of one of node:http";
    await random.check(title, conversation, 250, async ([text, cuts]) => {
      const bytes = Buffer.from(text, "latin1");
      const slow = await answers(served.port, await openSlow(served.port), [bytes]);
      const fast = await answers(served.port, await open(served.port), pieces(bytes, cuts));
      assert.equal(fast, slow);
    });
    assert.deepEqual(served.errors, []);
    assert.equal(served.listener.running, 0);
  },
};

function pieces(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b)];
  return places.map((from, at) => bytes.subarray(from, places[at + 1] ?? bytes.length));
}

/** Sends the pieces, then ends the client's side, and reads until the connection ends. */
async function answers(port: number, socket: Socket, sent: readonly Buffer[]): Promise<string> {
  socket.setNoDelay(true);
  const closed = readUntil(socket, () => false);
  for (const piece of sent) {
    if (!socket.writable) break;
    if (piece.length > 0) socket.write(piece);
    await serverHasRead(port);
  }
  socket.end();
  return withoutRefusal(withoutTime(await closed));
}

/**
 * The answers without the refusal of malformed bytes at their end: node:http closes the connection without one when a
 * request before them is still being answered, or when they are the rest of a body.
 */
function withoutRefusal(text: string): string {
  const last = text.lastIndexOf("HTTP/1.1 400 Bad Request");
  return last !== -1 && text.includes('"malformed request"', last) ? text.slice(0, last) : text;
}

/** A second connection is accepted and answered after the server has read what was written before. */
async function serverHasRead(port: number): Promise<void> {
  const socket = await open(port);
  socket.end("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  socket.resume();
  await once(socket, "close");
}
