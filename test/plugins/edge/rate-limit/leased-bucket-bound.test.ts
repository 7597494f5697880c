/** Tests of the protocol of leased buckets in simulated time. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { createTerms } from "../../../../plugins/edge/rate-limit/terms.ts";
import { assertBound, type Admission } from "./admissions.ts";
import { microsOf, simulateRedis } from "./simulated-replicas.ts";

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

test("three replicas never exceed burst + rate × time, whatever is delayed or lost", async (t) => {
  const simulated = await simulateRedis(t);
  if (simulated === undefined) return;
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
              if (isTaken === true && !isLost) admissions.push({ start, end: microsOf(simulated) });
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
});
