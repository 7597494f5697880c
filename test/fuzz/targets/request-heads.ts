/** Compares the head reader of the fast path with node:http, which must read every accepted head in the same way. */
import assert from "node:assert/strict";
import { Socket } from "node:net";
import * as fc from "fast-check";
import { HeadReader } from "../../../src/http/fast-path/head-reader.ts";
import { readHead } from "../../../src/http/fast-path/request-head.ts";
import {
  assertSameHead,
  startNodeHttpReference,
} from "../../http/fast-path/node-http-reference.ts";
import type { FuzzTarget, Random } from "../target.ts";

const token = fc.stringMatching(/^[!#$%&'*+.^`|~\w-]{1,12}$/);
const knownNames =
  "host content-length transfer-encoding connection proxy-connection keep-alive expect upgrade authorization " +
  "cookie set-cookie te x-a";
const known = fc.constantFrom(...knownNames.split(" "));
const value = fc.oneof(
  { weight: 4, arbitrary: fc.stringMatching(/^[\t -~]{0,20}$/) },
  fc.constantFrom("0", "5", "chunked", "close", "keep-alive", "100-continue", "a.example"),
  fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) }),
);
/** Mostly the first value, and occasionally another one. */
const mostly = (usual: string, ...odd: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, fc.constantFrom(...odd));
const field = fc
  .tuple(
    fc.oneof(token, known),
    mostly(": ", ":", " :", ""),
    value,
    mostly("\r\n", "\n", "\r", "\r\n "),
  )
  .map((parts) => parts.join(""));
const anyHead = fc
  .tuple(
    fc.constantFrom("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "get", "PROPFIND"),
    fc.oneof(
      fc.webPath().map((path) => `/${path}`),
      fc.stringMatching(/^\/[ -~]{0,20}$/),
      fc.constant("*"),
    ),
    mostly("HTTP/1.1", "HTTP/1.0", "http/1.1"),
    mostly("host: a.example:1\r\n", "Host:a\r\n", ""),
    fc.array(field, { maxLength: 4 }),
  )
  .map(
    ([method, path, version, host, fields]) =>
      `${method} ${path} ${version}\r\n${host}${fields.join("")}`,
  );

/** Heads that differ in their length and in a few fields, as those of one client do. */
const alikeFields = ["x-a: 1", "x-b:", "Content-Length: 7", "content-length:7", "accept: */*"];
const alikeHead = fc
  .tuple(
    fc.array(fc.constantFrom(...alikeFields)),
    fc.constantFrom("", "0", "7", "12", "1234567890", "7 ", " 7", "x"),
  )
  .map(([fields, length]) => {
    const lines = ["POST /v1?a=1&b=%20 HTTP/1.1", "Host: gateway.example:8080", ...fields];
    return `${lines.join("\r\n")}\r\n`.replace(/(?<=t-length: ?)7/i, length);
  });

export const requestHeads: FuzzTarget = {
  name: "request-heads",
  async run(random) {
    const socket = new Socket();
    try {
      await comparesHeads(random, socket);
      await comparesAlike(random, socket);
    } finally {
      socket.destroy();
    }
  },
};

async function comparesHeads(random: Random, socket: Socket): Promise<void> {
  using judge = await startNodeHttpReference();
  let accepted = 0;
  const title = "a head that is accepted is read the same by node:http";
  await random.check(title, anyHead, 5_000, async (text) => {
    const read = readHead(text, socket);
    if (read === undefined) return;
    accepted++;
    const expected = await judge.read(text);
    assert.ok(expected !== undefined, "node:http refuses it");
    assertSameHead(read, expected);
  });
  assert.ok(accepted > 200, `only ${accepted} of the heads were ordinary`);
}

async function comparesAlike(random: Random, socket: Socket): Promise<void> {
  const heads = fc.array(alikeHead, { minLength: 2, maxLength: 8 });
  const title = "heads of one connection are read as each alone, however alike they are";
  await random.check(title, heads, 2_000, (texts) => {
    const reader = new HeadReader(socket);
    // Each head is read twice, so that it also follows an identical one.
    for (const text of texts.flatMap((each) => [each, each])) {
      const bytes = Buffer.from(`${text}\r\nbody`, "latin1");
      const read = reader.read(bytes);
      assert.deepEqual(read, readHead(text, socket));
      if (read !== undefined) assert.equal(String(bytes.subarray(reader.bodyStart)), "body");
      for (const end of [0, 20, bytes.length - 5]) {
        assert.equal(reader.read(bytes.subarray(0, end)), "incomplete");
      }
    }
  });
}
