/** Sends arbitrary messages to an enclave's session: it never throws, and it closes at most once. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { closeCodes } from "../../../plugins/confidential/protocol/fault.ts";
import { ending } from "../../plugins/confidential/enclave/client.ts";
import { startEnclave } from "../../plugins/confidential/enclave/enclave.ts";
import { helloJson } from "../../plugins/confidential/protocol/session.ts";
import type { FuzzTarget } from "../target.ts";

const knownCodes: readonly number[] = Object.values(closeCodes);
const hello = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.json().map((json) => Uint8Array.from(Buffer.from(json))),
  fc
    .dictionary(fc.constantFrom("v", "suite", "pad", "epk", "known", "model"), fc.jsonValue())
    .map(helloJson),
);
/** Arbitrary bytes, or a header that could be valid and the bytes after it. */
const frame = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc
    .tuple(fc.nat(5), fc.nat(2), fc.nat(3), fc.nat(2), fc.uint8Array({ maxLength: 200 }))
    .map(([type, flags, rid, seq, rest]) =>
      Uint8Array.of(1, type, flags, 0, 0, 0, 0, rid, 0, 0, 0, 0, 0, 0, 0, seq, ...rest),
    ),
);

export const enclaveSessions: FuzzTarget = {
  name: "enclave-sessions",
  async run(random) {
    const enclave = await startEnclave();
    const title = "bytes in place of hello end the session, unless they are one";
    await random.check(title, hello, 300, async (bytes) => {
      const wire = enclave.open();
      wire.text(Uint8Array.from(bytes));
      enclave.clock.advance(10_000);
      const event = await wire.next();
      if (event.kind === "closed") assert.ok(knownCodes.includes(event.code));
      else assert.equal(event.kind, "text");
      wire.session.abort();
    });
    await random.check("bytes in place of a frame end the session", frame, 150, async (bytes) => {
      const { wire } = await enclave.connect();
      wire.binary(bytes);
      const { code, error } = await ending(wire);
      assert.ok(knownCodes.includes(code));
      assert.notEqual(error, undefined);
      wire.binary(bytes);
      assert.equal(wire.sent, 0);
    });
  },
};
