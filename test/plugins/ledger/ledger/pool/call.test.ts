import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { isObject } from "../../../../../src/base/is-object.ts";
import { SingleCall, type RequestOutcome } from "./recorded-request.ts";
import { failure, result } from "./scripted-node.ts";

const ID = 71;

async function endingOf(body: Buffer): Promise<RequestOutcome> {
  const call = new SingleCall();
  call.id = ID;
  const framed = Buffer.concat([Buffer.from("{}"), body, Buffer.from('"}')]);
  call.onResponse(200, framed, 2, 2 + body.length);
  assert.equal(call.request.endings, 1);
  return call.ending;
}

/** Parses with JSON.parse as the reference. Undefined if the text is not JSON. */
function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

const answers = fc.oneof(
  fc.json({ maxDepth: 2 }).map((text) => result(ID, text)),
  fc.jsonValue({ maxDepth: 1 }).map((data) => failure(ID, { code: -1, message: "é🦑", data })),
  fc.constant(failure(null, { message: "no id" })),
);
const changes = fc.array(
  fc.tuple(
    fc.nat(),
    fc.nat({ max: 1 }),
    fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(...Buffer.from(' {}[]",:\\017'))),
  ),
  { maxLength: 3 },
);

test("a mutated answer is accepted only if it answers the call, and is then returned unchanged", async () => {
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(answers, changes, async (answer, places) => {
      let body = Buffer.from(answer);
      for (const [place, removed, byte] of places) {
        const at = place % (body.length + 1);
        body = Buffer.concat([
          body.subarray(0, at),
          Buffer.from([byte]),
          body.subarray(at + removed),
        ]);
      }
      const ending = await endingOf(body);
      if (ending.kind === "failed") return assert.equal(ending.reason, "garbage");
      taken++;
      const whole = parsed(body);
      assert.ok(isObject(whole), "what is taken is JSON");
      assert.deepEqual(parsed(Buffer.from(ending.text)), whole[ending.kind]);
      if (ending.kind === "result") assert.equal(whole.id, ID);
      else assert.ok(whole.id === ID || !Number.isSafeInteger(whole.id) || Number(whole.id) < 0);
    }),
    { numRuns: 1_000 },
  );
  assert.ok(taken > 100, `only ${taken} were taken: nothing was compared`);
});
