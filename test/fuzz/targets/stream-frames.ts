/** Frames of the encrypted stream that no end of the session has sealed, and frames that were changed on their way. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { isFault } from "../../../plugins/confidential/protocol/fault.ts";
import { createFrameWatch } from "../../../plugins/confidential/protocol/frame-watch.ts";
import type { Direction } from "../../../plugins/confidential/protocol/frames.ts";
import { nodeSuite } from "../../../plugins/confidential/protocol/node-crypto.ts";
import {
  bytesOf,
  openSession,
  unwrap,
  type TestSession,
} from "../../plugins/confidential/protocol/session.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget, Random } from "../target.ts";

const typeNames = ["", "request", "chunk", "final", "cancel"];

const header = fc.record({
  version: fc.constantFrom(1, 1, 1, 0, 255),
  type: fc.nat(6),
  flags: fc.constantFrom(0, 1, 2, 255),
  epoch: fc.constantFrom(0, 0, 0, 1),
  rid: fc.nat(3),
  seq: fc.nat(3),
  tail: fc.uint8Array({ minLength: 12, maxLength: 60 }),
});
const forged = fc.oneof(
  fc.uint8Array({ maxLength: 80 }),
  header.map(({ version, type, flags, epoch, rid, seq, tail }) =>
    Uint8Array.of(version, type, flags, epoch, 0, 0, 0, rid, 0, 0, 0, 0, 0, 0, 0, seq, ...tail),
  ),
);

export const streamFrames: FuzzTarget = {
  name: "stream-frames",
  async run(random) {
    const session = await openSession();
    await watchesForgedFrames(random);
    await random.check("a forged frame never opens and never throws", forged, 500, (bytes) => {
      const { client, enclave } = session.ends();
      assert.ok(isFault(enclave.open(bytes)));
      unwrap(session.ends().enclave.open(unwrap(client.seal("request", 1, bytesOf("{}"), true))));
      assert.ok(isFault(client.open(bytes)));
    });
    await opensOnlyWhatWasSealed(random, session);
  },
};

async function watchesForgedFrames(random: Random): Promise<void> {
  const step = fc.record({
    direction: fc.constantFrom<Direction[]>("c2s", "s2c"),
    frame: forged,
  });
  const title = "a watch never throws, and lets pass only what the rules allow";
  await random.check(title, fc.array(step, { maxLength: 12 }), 3000, (steps) => {
    const watch = createFrameWatch(nodeSuite.newHash);
    const count = { c2s: 0, s2c: 0 };
    const refused = new Set<Direction>();
    for (const { direction, frame } of steps) {
      const read = watch.observe(direction, frame);
      if (isFault(read)) {
        refused.add(direction);
        continue;
      }
      assert.ok(!refused.has(direction));
      assert.equal(read.seq, count[direction]++);
      assert.equal(read.rid, watch.rid());
      const wanted = [1, typeNames.indexOf(read.type), read.isEnd ? 1 : 0, 0];
      assert.deepEqual([...frame.subarray(0, 4)], wanted);
    }
  });
}

/** An answer of several frames, of which one is changed, dropped, repeated or moved. */
async function opensOnlyWhatWasSealed(random: Random, session: TestSession): Promise<void> {
  const chunks = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 4 });
  const tampering = fc.constantFrom("change", "drop", "repeat", "move");
  const answers = fc.tuple(chunks, tampering, fc.nat(), fc.nat());
  const title =
    "an answer that was changed on its way is opened as far as it was sealed, and no further";
  await random.check(title, answers, 400, ([texts, how, at, to]) => {
    const { client, enclave } = session.ends();
    unwrap(enclave.open(unwrap(client.seal("request", 1, bytesOf("{}"), true))));
    const sealed = texts.map((text) => unwrap(enclave.seal("chunk", 1, Uint8Array.from(text))));
    sealed.push(unwrap(enclave.seal("final", 1, bytesOf("{}"))));
    const sent: Uint8Array[] = [...sealed];
    const index = at % sent.length;
    const [frame = new Uint8Array(0)] = sent.splice(index, 1);
    if (how === "repeat") sent.splice(index, 0, frame, frame);
    if (how === "move") sent.splice(to % (sent.length + 1), 0, frame);
    if (how === "change") {
      const [mutant = frame] = fc.sample(mutantsOf(fc.constant(frame), 2), {
        seed: to,
        numRuns: 1,
      });
      sent.splice(index, 0, mutant);
    }
    let isClosed = false;
    for (const [place, one] of sent.entries()) {
      const opened = client.open(one);
      const original = sealed[place];
      const isOriginal = original !== undefined && Buffer.from(original).equals(one);
      if (isFault(opened)) isClosed = true;
      else assert.ok(isOriginal && !isClosed, "a frame opened that was not next");
      if (!isOriginal) assert.ok(isClosed);
    }
  });
}
