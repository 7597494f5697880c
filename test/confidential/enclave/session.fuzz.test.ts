/** An enclave's session under whatever a stranger may send: it never throws, and it closes at most once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { closeCodes } from "../../../src/confidential/fault.ts";
import { helloJson } from "../session.ts";
import { ending } from "./client.ts";
import { startEnclave } from "./enclave.ts";

const knownCodes: readonly number[] = Object.values(closeCodes);

test("bytes in place of hello end the session, unless they are one", async () => {
  const enclave = await startEnclave();
  const text = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.json().map((json) => Uint8Array.from(Buffer.from(json))),
    fc
      .dictionary(fc.constantFrom("v", "suite", "pad", "epk", "known", "model"), fc.jsonValue())
      .map(helloJson),
  );
  await fc.assert(
    fc.asyncProperty(text, async (bytes) => {
      const wire = enclave.open();
      wire.text(bytes);
      enclave.clock.advance(10_000);
      const event = await wire.next();
      if (event.kind === "closed") assert.ok(knownCodes.includes(event.code));
      else assert.equal(event.kind, "text");
      wire.session.left();
    }),
    { numRuns: 300 },
  );
});

test("bytes in place of a frame end it", async () => {
  const enclave = await startEnclave();
  // A header that could be, and what follows it.
  const framed = fc
    .tuple(fc.nat(5), fc.nat(2), fc.nat(3), fc.nat(2), fc.uint8Array({ maxLength: 200 }))
    .map(([type, flags, rid, seq, rest]) =>
      Uint8Array.of(1, type, flags, 0, 0, 0, 0, rid, 0, 0, 0, 0, 0, 0, 0, seq, ...rest),
    );
  const bytes = fc.oneof(fc.uint8Array({ maxLength: 300 }), framed);
  await fc.assert(
    fc.asyncProperty(bytes, async (frame) => {
      const { wire } = await enclave.connect();
      wire.binary(frame);
      const { code, error } = await ending(wire);
      assert.ok(knownCodes.includes(code));
      assert.notEqual(error, undefined);
      wire.binary(frame);
      assert.equal(wire.sent, 0);
    }),
    { numRuns: 150 },
  );
});
