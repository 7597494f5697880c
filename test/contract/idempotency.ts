/** Tests of every implementation of `idempotency` of the service `accounts`: each row of the specification's table. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type {
  Idempotency,
  IdempotencySlot,
  IdempotentRequest,
  StoredResponse,
} from "sluice-gateway/services";
import type { AccountStore } from "../../plugins/billing/accounts/account-store.ts";

export interface IdempotencyReplica {
  readonly idempotency: Idempotency;
  readonly store: AccountStore;
  /** Stops the renewal of its leases, as if the gateway had died. */
  die(): void;
}

export interface OpenIdempotency {
  readonly one: IdempotencyReplica;
  readonly other: IdempotencyReplica;
  readonly workspaceId: string;
  /** Lets time pass for the store and both gateways, with their timers. */
  readonly pass: (ms: number) => Awaitable<void>;
}

const leaseMs = 60_000;
const dayMs = 24 * 3_600_000;
const inFlight = { kind: "inFlight" };
const ran = { kind: "ran" };

const request: IdempotentRequest = {
  apiKeyId: "key_1",
  key: "gateway_a",
  fingerprint: "a".repeat(64),
};
const another: IdempotentRequest = { ...request, fingerprint: "b".repeat(64) };
const response: StoredResponse = {
  status: 201,
  contentType: "text/plain",
  contentEncoding: "br",
  body: Uint8Array.of(0, 255, 10),
};
const replay = { kind: "replay", response };
const by = { actor: "test", at: 1 };

async function take(
  { idempotency }: IdempotencyReplica,
  wanted: IdempotentRequest,
): Promise<IdempotencySlot> {
  const result = await idempotency.take(wanted);
  assert.ok(result.kind === "taken", result.kind);
  return result.slot;
}

/** Answers like `idempotency`, with stored bodies as plain Uint8Arrays, because a store may use a subclass. */
async function answerOf<T extends { readonly kind: string }>(
  answer: Awaitable<T>,
): Promise<object> {
  const found: { readonly kind: string; readonly response?: StoredResponse } = await answer;
  if (found.response === undefined) return found;
  return { ...found, response: { ...found.response, body: Uint8Array.from(found.response.body) } };
}

const failing = (): never => assert.fail("it ran");

export function describeIdempotency(
  name: string,
  open: (t: TestContext) => Awaitable<OpenIdempotency>,
): void {
  /** Buys 5 milli-CU through `replica`. It also works inside `once`. */
  const buy = async (replica: IdempotencyReplica, workspaceId: string): Promise<void> => {
    const bought = await replica.store.purchase(workspaceId, 5, by);
    assert.ok("purchaseId" in bought);
  };
  const bought = async (
    { store }: IdempotencyReplica,
    workspaceId: string,
  ): Promise<number | undefined> => (await store.findWorkspace(workspaceId))?.purchasedTotalMilliCu;

  describe(`idempotency: ${name}`, () => {
    test("a request in flight is a conflict for all others, with any body and on any replica", async (t) => {
      const { one, other } = await open(t);
      await take(one, request);
      for (const { idempotency } of [one, other]) {
        assert.deepEqual(await answerOf(idempotency.take(request)), inFlight);
        assert.deepEqual(await answerOf(idempotency.take(another)), inFlight);
        assert.deepEqual(await answerOf(idempotency.once(request, failing)), inFlight);
      }
    });

    test("of several requests that arrive at once, one takes the slot", async (t) => {
      const { one, other } = await open(t);
      const answers = await Promise.all(
        [one, other, one, other].map(async ({ idempotency }) => idempotency.take(request)),
      );
      assert.deepEqual(answers.map(({ kind }) => kind).toSorted(), [
        "inFlight",
        "inFlight",
        "inFlight",
        "taken",
      ]);
    });

    test("a slot belongs to one API key and one idempotency key", async (t) => {
      const { one } = await open(t);
      await take(one, request);
      await take(one, { ...request, apiKeyId: "key_2" });
      await take(one, { ...request, key: "gateway_A" });
    });

    test("every replica replays a stored response byte for byte for 24 hours, and then the slot is absent", async (t) => {
      const { one, other, pass } = await open(t);
      assert.equal(await (await take(one, request)).store(response), true);
      await pass(dayMs - 1);
      for (const { idempotency } of [one, other]) {
        assert.deepEqual(await answerOf(idempotency.take(request)), replay);
        assert.deepEqual(await answerOf(idempotency.take(another)), { kind: "mismatch" });
      }
      await pass(1);
      await (await take(other, another)).store(response);
      assert.deepEqual(await answerOf(one.idempotency.take(request)), { kind: "mismatch" });
    });

    test("a response without a content type and a body is replayed unchanged", async (t) => {
      const { one } = await open(t);
      const empty = {
        status: 204,
        contentType: undefined,
        contentEncoding: undefined,
        body: new Uint8Array(),
      };
      await (await take(one, request)).store(empty);
      assert.deepEqual(await answerOf(one.idempotency.take(request)), {
        kind: "replay",
        response: empty,
      });
    });

    test("a released slot is absent", async (t) => {
      const { one, other } = await open(t);
      await (await take(one, request)).release();
      await take(other, another);
    });

    test("a living owner keeps its slot for any length of time", async (t) => {
      const { one, other, pass } = await open(t);
      const slot = await take(one, request);
      await pass(60 * leaseMs);
      assert.deepEqual(await answerOf(other.idempotency.take(request)), inFlight);
      assert.equal(await slot.store(response), true);
      assert.deepEqual(await answerOf(other.idempotency.take(request)), replay);
    });

    test("the slot of a dead owner is free after its lease, and later calls of that owner have no effect", async (t) => {
      const { one, other, pass } = await open(t);
      const slot = await take(one, request);
      one.die();
      await pass(leaseMs - 1);
      assert.deepEqual(await answerOf(other.idempotency.take(request)), inFlight);
      await pass(1);
      const next = await take(other, another);
      assert.equal(await slot.store(response), false);
      await slot.release();
      assert.deepEqual(await answerOf(one.idempotency.take(request)), inFlight);
      await next.store(response);
      assert.deepEqual(await answerOf(one.idempotency.take(another)), replay);
    });

    test("the slot, the effect and the response are one transaction", async (t) => {
      const { one, other, workspaceId } = await open(t);
      const result = await one.idempotency.once(request, async () => {
        await buy(one, workspaceId);
        assert.equal(await bought(other, workspaceId), 0, "no other replica sees a part of it");
        return response;
      });
      assert.deepEqual([result, await bought(other, workspaceId)], [ran, 5]);
      for (const { idempotency } of [one, other]) {
        assert.deepEqual(await answerOf(idempotency.once(request, failing)), replay);
        assert.deepEqual(await answerOf(idempotency.once(another, failing)), { kind: "mismatch" });
      }
    });

    test("one request that several gateways get at once has its effect once, and all get its response", async (t) => {
      const { one, other, workspaceId } = await open(t);
      for (let round = 0; round < 10; round++) {
        const wanted = { ...request, key: `round ${round}` };
        const kinds = await Promise.all(
          [one, other, one, other].map(async (replica) => {
            const work = async (): Promise<StoredResponse> => {
              await buy(replica, workspaceId);
              return response;
            };
            return (await replica.idempotency.once(wanted, work)).kind;
          }),
        );
        assert.equal(kinds.filter((kind) => kind === "ran").length, 1, kinds.join());
        assert.ok(kinds.every((kind) => ["ran", "replay", "inFlight"].includes(kind)));
        for (const { idempotency } of [one, other]) {
          assert.deepEqual(await answerOf(idempotency.once(wanted, failing)), replay);
        }
      }
      assert.equal(await bought(one, workspaceId), 50);
    });

    test("of two equal requests at the same time one runs, although the first one waits in its transaction", async (t) => {
      const { one, workspaceId } = await open(t);
      const held = Promise.withResolvers<void>();
      const first = one.idempotency.once(request, async () => {
        await buy(one, workspaceId);
        await held.promise;
        return response;
      });
      const second = one.idempotency.once(request, failing);
      held.resolve();
      assert.deepEqual(await first, ran);
      // A store may answer the second request at once, or let it wait for the first one.
      const { kind } = await second;
      assert.ok(kind === "replay" || kind === "inFlight", kind);
      assert.deepEqual(await answerOf(one.idempotency.once(request, failing)), replay);
      assert.equal(await bought(one, workspaceId), 5);
    });

    test("a change outside a transaction that waits is not rolled back with it", async (t) => {
      const { one, workspaceId } = await open(t);
      const held = Promise.withResolvers<void>();
      const undone = one.idempotency.once(request, async () => {
        await buy(one, workspaceId);
        await held.promise;
        return "undo" as const;
      });
      const outside = buy(one, workspaceId);
      const taken = take(one, { ...request, key: "gateway_b" });
      held.resolve();
      assert.deepEqual(await undone, ran);
      await outside;
      assert.equal(await bought(one, workspaceId), 5);
      assert.equal(await (await taken).store(response), true);
    });

    test("work that releases its slot is committed and may run again", async (t) => {
      const { one, other, workspaceId } = await open(t);
      for (const sum of [5, 10]) {
        const result = await one.idempotency.once(request, async () => {
          await buy(one, workspaceId);
          return "release" as const;
        });
        assert.deepEqual([result, await bought(other, workspaceId)], [ran, sum]);
      }
    });

    test("work that returns undo, throws or rejects is rolled back completely", async (t) => {
      const { one, other, workspaceId } = await open(t);
      const undone = await one.idempotency.once(request, async () => {
        await buy(one, workspaceId);
        return "undo" as const;
      });
      assert.deepEqual([undone, await bought(other, workspaceId)], [ran, 0]);
      const bug = new Error("a bug");
      const throwing = (): never => {
        throw bug;
      };
      const rejecting = async (): Promise<never> => {
        await buy(one, workspaceId);
        throw bug;
      };
      for (const work of [throwing, rejecting]) {
        await assert.rejects(async () => one.idempotency.once(request, work), bug);
        assert.equal(await bought(other, workspaceId), 0);
      }
      assert.deepEqual(await answerOf(one.idempotency.once(request, () => response)), ran);
    });

    test("an expired slot is used again by a request in a transaction", async (t) => {
      const { one, pass } = await open(t);
      await one.idempotency.once(request, () => response);
      await pass(dayMs);
      const later = { ...response, status: 409 };
      assert.deepEqual(await answerOf(one.idempotency.once(another, () => later)), ran);
      assert.deepEqual(await answerOf(one.idempotency.take(another)), {
        kind: "replay",
        response: later,
      });
    });
  });
}
