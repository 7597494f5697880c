/**
 * Sends frames of HTTP/2 that do not fit together, damaged ones, and fields that HTTP does not allow. Whatever a client
 * sends, its requests end, nothing throws, and the next client is served.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect as connectHttp2 } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import * as fc from "fast-check";
import type { Exchange } from "../../../src/plugin.ts";
import { cert, key } from "../../certificate.ts";
import { send } from "../../http/http2/client.ts";
import { serve } from "../../pipeline/harness.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget } from "../target.ts";

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

/** RFC 9113 section 4.1: length, type, flags, stream, payload. */
function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** RFC 7541 section 6.2.2: literal fields without indexing, whose names and values have fewer than 127 bytes. */
function fieldBlock(fields: readonly (readonly [string, string])[]): Buffer {
  const texts = fields.flatMap(([name, value]) => [
    Buffer.of(0, name.length),
    Buffer.from(name, "latin1"),
    Buffer.of(value.length),
    Buffer.from(value, "latin1"),
  ]);
  return Buffer.concat(texts);
}

const field: fc.Arbitrary<readonly [string, string]> = fc.oneof(
  fc.constantFrom<readonly [string, string]>(
    [":method", "GET"],
    [":method", "CONNECT"],
    [":path", "/x"],
    [":path", ""],
    [":path", "*"],
    [":scheme", "https"],
    [":authority", "a"],
    [":status", "200"],
    ["content-length", "3"],
    ["content-length", "-1"],
    ["transfer-encoding", "chunked"],
    ["connection", "close"],
    ["expect", "100-continue"],
    ["cookie", "a=b"],
    ["Upper", "case"],
    ["te", "trailers"],
  ),
  fc.tuple(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 })),
);
const request = [
  [":method", "POST"],
  [":path", "/x"],
  [":scheme", "https"],
  [":authority", "a"],
] as const;
const fieldBlocks = fc
  .tuple(fc.array(field, { maxLength: 4 }), fc.boolean())
  .map(([more, isWhole]) => fieldBlock(isWhole ? [...request, ...more] : more));

/** Clients use odd numbers. Number 0 is the connection itself. */
const streamId = fc.constantFrom(1, 1, 3, 3, 5, 7, 2, 0, 0x7fffffff);
const flags = fc.constantFrom(0, 1, 4, 5, 5, 8, 0x20, 0xff);
/** Types 0 to 9 are those of RFC 9113, from DATA to CONTINUATION. */
const anyFrame = fc
  .tuple(
    fc.constantFrom(0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xee),
    flags,
    streamId,
    fc.uint8Array({ maxLength: 16 }),
    fieldBlocks,
  )
  .map(([type, flag, id, payload, block]) =>
    frame(type, flag, id, type === 1 || type === 9 ? block : payload),
  );
const settings = frame(4, 0, 0, Buffer.alloc(0));
/** A request that is complete, or whose body follows. */
const goodRequest = fc
  .constantFrom(4, 5)
  .map((flag) =>
    frame(1, flag, 1, fieldBlock([...request, ["content-length", flag === 4 ? "3" : "0"]])),
  );
const conversation = fc
  .tuple(fc.option(goodRequest, { nil: Buffer.alloc(0) }), fc.array(anyFrame, { maxLength: 12 }))
  .map(([first, more]) => Buffer.concat([preface, settings, first, ...more]));

export const http2Frames: FuzzTarget = {
  name: "http2-frames",
  async run(random) {
    const folder = mkdtempSync(join(tmpdir(), "sluice-fuzz-"));
    const tls = { cert: join(folder, "tls.crt"), key: join(folder, "tls.key") };
    writeFileSync(tls.cert, cert);
    writeFileSync(tls.key, key);
    try {
      let odd = 0;
      const surface = {
        body: { bytes: 1_000 },
        answer: ({ request: { headers } }: Exchange) => {
          if (headers["x-next"] === undefined) odd++;
          return { status: 200 };
        },
      };
      await using served = await serve([{ path: "/x", surface }], { server: { tls } });
      const title = "a client cannot disturb the next one";
      const inputs = fc.oneof(conversation, mutantsOf(conversation));
      await random.check(title, inputs, 150, async (bytes) => {
        await converse(served.port, bytes);
        assert.equal(await statusOfNext(served.port), 200);
      });
      assert.ok(odd > 0, "no conversation contained a request that the surface answered");
      assert.deepEqual(served.errors, []);
      assert.equal(served.listener.running, 0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

async function converse(port: number, bytes: Uint8Array): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1", ca: cert, ALPNProtocols: ["h2"] });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  assert.equal(socket.alpnProtocol, "h2");
  const closed = new Promise((resolve) => void socket.once("close", resolve));
  socket.resume();
  socket.end(bytes);
  await closed;
}

async function statusOfNext(port: number): Promise<number | undefined> {
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca: cert });
  session.on("error", () => {});
  const { status } = await send(session, { ":path": "/x", ":method": "POST", "x-next": "1" }, "ok");
  session.destroy();
  return status;
}
