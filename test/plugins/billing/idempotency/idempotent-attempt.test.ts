/** Tests of an attempt on a store that answers with promises. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reply } from "sluice-gateway/plugin";
import type { Idempotency, IdempotencySlot, StoredResponse } from "sluice-gateway/services";
import { IdempotentAttempt } from "../../../../plugins/billing/idempotency/idempotent-attempt.ts";
import { shippedModules } from "../../../../src/pipeline/load/modules.ts";

// Declares the codes of the modules.
await shippedModules();

interface SlowStore {
  readonly idempotency: Idempotency;
  readonly actions: string[];
}

function slowStore(): SlowStore {
  const actions: string[] = [];
  const slot: IdempotencySlot = {
    async store({ body }: StoredResponse) {
      await Promise.resolve();
      actions.push(`stored ${Buffer.from(body).toString()}`);
      return true;
    },
    async release() {
      await Promise.resolve();
      actions.push("released");
    },
  };
  const idempotency: Idempotency = {
    take: async () => Promise.resolve({ kind: "taken", slot }),
    async once(_, work) {
      await Promise.resolve();
      const end = await work();
      actions.push(typeof end === "string" ? end : `committed ${end.status}`);
      return { kind: "ran" };
    },
  };
  return { idempotency, actions };
}

const attemptOn = ({ idempotency }: SlowStore): IdempotentAttempt =>
  new IdempotentAttempt(idempotency, "enforce", "key_1", "gateway_a");

test("a slot that is taken after the exchange has ended is released, and the surface does not run", async () => {
  const store = slowStore();
  const attempt = attemptOn(store);
  const running = attempt.run({ atomic: false, answer: () => assert.fail("it ran") });
  await attempt.release();
  await running;
  assert.deepEqual(store.actions, ["released"]);
});

test("an atomic surface may answer with a promise, and a failed answer undoes its work", async () => {
  for (const [status, action] of [
    [200, "committed 200"],
    [503, "undo"],
  ] as const) {
    const store = slowStore();
    const reply: Reply = { status, body: "" };
    const answer = async (): Promise<Reply> => Promise.resolve(reply);
    assert.equal(await attemptOn(store).run({ atomic: true, answer }), reply);
    assert.deepEqual(store.actions, [action]);
  }
});
