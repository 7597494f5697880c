/**
 * The requests of a leased bucket to Redis, the requests that it allows without an answer, and the bound that replicas
 * keep, in simulated time.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { LeasedBucket } from "../../../../plugins/edge/rate-limit/leased-bucket.ts";
import { type BucketTerms, createTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import {
  type Admission,
  assertBound,
  microsOf,
  type SimulatedRedis,
  simulatedTest,
} from "./simulated-replicas.ts";

async function burst(simulated: SimulatedRedis, bucket: LeasedBucket): Promise<number> {
  let taken = 0;
  while (await bucket.take(microsOf(simulated))) taken++;
  return taken;
}

async function take(simulated: SimulatedRedis, bucket: LeasedBucket, times: number): Promise<void> {
  for (let i = 0; i < times; i++) assert.equal(await bucket.take(microsOf(simulated)), true);
}

const slow: BucketTerms = createTerms("key", 0.001, 100);

simulatedTest(
  "tokens that another replica holds are missing, at most a twelfth of those left to three",
  async (simulated) => {
    const [one, other] = [simulated.bucket(slow), simulated.bucket(slow)];
    await take(simulated, one, 1);
    assert.equal(await burst(simulated, other), 100 - 1 - 8);
    await take(simulated, one, 8);
    assert.equal(await burst(simulated, one), 0);
  },
);

simulatedTest(
  "most requests need no call, and a burst that arrives at once needs one",
  async (simulated) => {
    const { clock } = simulated;
    const bucket = simulated.bucket(createTerms("key", 200, 400));
    for (let i = 0; i < 300; i++) {
      await take(simulated, bucket, 1);
      clock.advance(10);
    }
    assert.ok(simulated.calls < 30, `${simulated.calls} calls`);
    simulated.calls = 0;
    const cold = simulated.bucket(createTerms("key", 200, 400));
    const taken = await Promise.all(
      Array.from({ length: 50 }, async () => cold.take(microsOf(simulated))),
    );
    assert.deepEqual(new Set(taken), new Set([true]));
    assert.equal(simulated.calls, 1);
  },
);

simulatedTest("a flood after the last token reaches Redis once per token", async (simulated) => {
  const { clock } = simulated;
  const bucket = simulated.bucket(createTerms("key", 10, 4));
  assert.equal(await burst(simulated, bucket), 4);
  simulated.calls = 0;
  let taken = 0;
  for (let ms = 0; ms < 1_000; ms++) {
    clock.advance(1);
    if (await bucket.take(microsOf(simulated))) taken++;
  }
  assert.equal(taken, 10);
  assert.ok(simulated.calls <= 20, `${simulated.calls} calls`);
  assert.equal(bucket.microsToNext(microsOf(simulated)), 100_000);
});

simulatedTest("a caller with few requests loses no token to its holds", async (simulated) => {
  const { clock } = simulated;
  const bucket = simulated.bucket(slow);
  for (let i = 0; i < 60; i++) {
    await take(simulated, bucket, 1);
    clock.advance(i % 2 === 0 ? 1_500 : 4_000);
  }
  assert.equal(await burst(simulated, bucket), 40);
});

simulatedTest("the tokens of a replica that is gone count as spent", async (simulated) => {
  const { clock } = simulated;
  await take(simulated, simulated.bucket(slow), 1);
  clock.advance(2_001);
  const other = simulated.bucket(slow);
  assert.equal(await burst(simulated, other), 91);
});

simulatedTest(
  "while Redis is away each replica allows its share, which Redis takes from the bucket later",
  async (simulated) => {
    const { clock, redis } = simulated;
    const terms = createTerms("key", 0.03, 90);
    const replicas = [0, 1, 2].map(() => simulated.bucket(terms));
    redis.isUp = false;
    for (const replica of replicas) assert.equal(await burst(simulated, replica), 30);
    clock.advance(100_000);
    for (const replica of replicas) {
      assert.equal(replica.remaining(microsOf(simulated)), 1);
      assert.equal(await burst(simulated, replica), 1);
    }
    redis.isUp = true;
    let taken = 0;
    for (const replica of replicas) taken += await burst(simulated, replica);
    assert.ok(taken <= 90 - 31, `${taken} after the first replica has reported what it allowed`);
  },
);

simulatedTest(
  "one gateway alone never exceeds its limit when Redis goes away and comes back",
  async (simulated) => {
    const { redis } = simulated;
    redis.replicas = 1;
    const bucket = simulated.bucket(slow);
    await take(simulated, bucket, 20);
    redis.isUp = false;
    await take(simulated, bucket, 50);
    redis.isUp = true;
    assert.equal(await burst(simulated, bucket), 30);
    redis.isUp = false;
    assert.equal(await burst(simulated, bucket), 0);
  },
);

simulatedTest(
  "a call without an answer leaves the decision to the share, and its tokens count as spent",
  async (simulated) => {
    simulated.isDelayed = true;
    const bucket = simulated.bucket(createTerms("key", 0.001, 9));
    const first = bucket.take(microsOf(simulated));
    const reply = await simulated.nextReply();
    const second = bucket.take(microsOf(simulated));
    simulated.isDelayed = false;
    reply.lose();
    assert.equal(await first, true, "the share has three tokens");
    assert.equal(await second, true);
    // Two tokens of the first call, one of the second, and one that the share gave.
    assert.equal(await burst(simulated, bucket), 9 - 3);
  },
);

simulatedTest("a malformed reply counts as no answer", async (simulated) => {
  for (const reply of [undefined, [], [1, 0], [1, 0, "x"], [-1, 0, "5"], [1, 0.5, "5"], "OK"]) {
    simulated.redis.run = () => Promise.resolve(reply);
    assert.equal(await burst(simulated, simulated.bucket(createTerms("key", 0.001, 9))), 3);
  }
});

simulatedTest(
  "a server whose clock is behind or ahead neither stops nor fills the bucket",
  async (simulated) => {
    const terms = createTerms("key", 1, 100);
    const bucket = simulated.bucket(terms);
    assert.equal(await burst(simulated, bucket), 100);
    simulated.redisAheadMs = -3_600_000;
    simulated.clock.advance(5_000);
    assert.equal(await burst(simulated, bucket), 0, "the refill begins again");
    simulated.clock.advance(5_000);
    assert.equal(await burst(simulated, bucket), 5);
  },
);

simulatedTest(
  "a changed limit applies at once, and keeps the tokens that fit",
  async (simulated) => {
    const bucket = simulated.bucket(slow);
    await take(simulated, bucket, 10);
    bucket.change(createTerms("key", 0.001, 50), microsOf(simulated));
    const taken = await burst(simulated, bucket);
    assert.ok(taken >= 50 - 8 && taken <= 50, `${taken} tokens`);
    bucket.change(createTerms("key", 1, 50), microsOf(simulated));
    simulated.clock.advance(3_000);
    assert.equal(await burst(simulated, bucket), 3);
  },
);

simulatedTest("another number of replicas changes the share", async (simulated) => {
  const { redis } = simulated;
  redis.isUp = false;
  redis.replicas = 2;
  const bucket = simulated.bucket(slow);
  await take(simulated, bucket, 1);
  redis.replicas = 10;
  assert.equal(await burst(simulated, bucket), 10);
});

simulatedTest("a bucket is forgotten only when it holds nothing", async (simulated) => {
  const bucket = simulated.bucket(createTerms("key", 100, 100));
  assert.equal(bucket.isFull(microsOf(simulated)), true);
  await take(simulated, bucket, 1);
  simulated.clock.advance(999);
  assert.equal(bucket.isFull(microsOf(simulated)), false);
  simulated.clock.advance(2);
  assert.equal(bucket.isFull(microsOf(simulated)), true);
});

const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("take"),
      replica: fc.nat(2),
      times: fc.oneof(fc.constant(1), fc.nat(12), fc.nat(130)),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("wait"), ms: fc.nat(400) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("wait"), ms: fc.nat(5_000) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("arrive"), index: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("lose"), index: fc.nat(5) }) },
) as fc.Arbitrary<
  | { readonly kind: "take"; readonly replica: number; readonly times: number }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "arrive" | "lose"; readonly index: number }
>;

simulatedTest(
  "three replicas never exceed burst + rate × time, whatever is delayed or lost",
  async (simulated) => {
    const { clock, client, replies } = simulated;
    let total = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(500, 5_000, 50_000, 333_000),
        fc.constantFrom(1, 4, 20, 60, 100),
        fc.array(action, { minLength: 20, maxLength: 100 }),
        fc.boolean(),
        async (rate, capacity, actions, isDelayed) => {
          await client.flushall();
          simulated.isDelayed = isDelayed;
          const terms = createTerms("key", rate / 1000, capacity);
          const replicas = [0, 1, 2].map(() => simulated.bucket(terms));
          const admissions: Admission[] = [];
          const open: Promise<void>[] = [];
          let isLost = false;
          const settle = async (): Promise<void> => {
            // Lets the calls of this moment reach Redis, and their answers come back.
            for (let turn = 0; turn < 3; turn++) await client.ping();
          };
          for (const next of actions) {
            if (next.kind === "take") {
              const start = microsOf(simulated);
              const decide = async (): Promise<void> => {
                const isTaken = await replicas[next.replica]?.take(start);
                // A request whose answer was lost is decided by the share of the replica, which is another bound.
                if (isTaken === true && !isLost)
                  admissions.push({ start, end: microsOf(simulated) });
              };
              for (let i = 0; i < next.times; i++) open.push(decide());
            } else if (next.kind === "wait") clock.advance(next.ms);
            else if (next.kind === "arrive") replies.splice(next.index, 1)[0]?.arrive();
            else {
              const [reply] = replies.splice(next.index, 1);
              isLost = true;
              reply?.lose();
            }
            await settle();
            isLost = false;
          }
          simulated.isDelayed = false;
          for (const reply of replies.splice(0)) reply.arrive();
          await Promise.all(open);
          total += admissions.length;
          assertBound(admissions, rate, capacity);
        },
      ),
      { numRuns: 150 },
    );
    assert.ok(total > 1_000, `only ${total} admissions`);
  },
);
