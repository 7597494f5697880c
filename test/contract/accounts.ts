/** Tests of every implementation of `AccountStore`. Two gateways share the store. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type { IssuedKey, NewKey, Workspace } from "sluice-gateway/services";
import type { AccountStore } from "../../plugins/billing/accounts/account-store.ts";
import { hashKey } from "../../plugins/billing/accounts/key-text.ts";

export interface OpenAccountStores {
  readonly one: AccountStore;
  readonly other: AccountStore;
  readonly restart: () => Awaitable<AccountStore>;
}

const by = { actor: "test", at: 1_000, requestId: "req-1" };

export function describeAccountStore(
  name: string,
  open: (t: TestContext) => Awaitable<OpenAccountStores>,
): void {
  const acme = async (store: AccountStore): Promise<Workspace> =>
    store.createWorkspace({ name: "Acme", plan: "developer" }, by);
  const issue = async (
    store: AccountStore,
    { id }: Workspace,
    wanted: Partial<NewKey> = {},
  ): Promise<IssuedKey> => {
    const issued = await store.createKey(
      {
        workspaceId: id,
        name: "a key",
        environment: "dev",
        capabilities: ["inference", "docs:read"],
        ...wanted,
      },
      by,
    );
    assert.ok("text" in issued, "failed" in issued ? issued.message : "");
    return issued;
  };
  const failure = (result: object): unknown => ("failed" in result ? result.failed : undefined);

  describe(`accounts: ${name}`, () => {
    test("a key is found by its id and by the hash of its text, with its workspace, also after a restart", async (t) => {
      const { one, other, restart } = await open(t);
      const workspace = await acme(one);
      const { key, text } = await issue(other, workspace, {
        rpsLimit: 0.5,
        cuLimit24hMilli: 0,
        cuLimit30dMilli: Number.MAX_SAFE_INTEGER,
        allowedAddresses: ["10.0.0.0/8", "::1"],
        expiresAt: 9_000,
      });
      const hash = hashKey(text);
      const check = async (store: AccountStore): Promise<void> => {
        assert.deepEqual(await store.findKey(key.id), key);
        assert.equal(await store.hashOf(key.id), hash);
        const found = await store.findByHash(hash);
        assert.deepEqual(found?.workspace, workspace);
        assert.equal(found?.key.id, key.id);
        assert.deepEqual(await store.listKeys(workspace.id), [key]);
      };
      await check(one);
      await check(other);
      await check(await restart());
    });

    test("missing keys and workspaces are not found, and the failure names them", async (t) => {
      const { one } = await open(t);
      assert.equal(await one.findByHash("0".repeat(64)), undefined);
      assert.equal(await one.hashOf("key_none"), undefined);
      assert.equal(await one.findKey("key_none"), undefined);
      assert.equal(await one.findWorkspace("ws_none"), undefined);
      const wanted = {
        workspaceId: "ws_none",
        name: "",
        environment: "dev",
        capabilities: ["inference"],
      } as const;
      for (const result of [
        await one.createKey(wanted, by),
        await one.setKey("key_none", { name: "x" }, by),
        await one.revokeKey("key_none", by),
        await one.rotateKey("key_none", 1, by),
        await one.setWorkspace("ws_none", { plan: "free" }, by),
        await one.upgrade("ws_none", "startup", by),
        await one.downgrade("ws_none", { plan: "free", at: 5_000 }, by),
        await one.cancelDowngrade("ws_none", by),
        await one.purchase("ws_none", 1, by),
      ]) {
        assert.equal(failure(result), "notFound");
        assert.ok("message" in result);
        assert.match(result.message, /^there is no (key key|workspace ws)_none$/);
      }
      assert.deepEqual(await one.changes(), [], "a change that failed is not in the audit log");
    });

    test("a revoked key keeps the time of its first revocation and cannot be changed", async (t) => {
      const { one, other } = await open(t);
      const { key } = await issue(one, await acme(one));
      const revoked = await one.revokeKey(key.id, { ...by, at: 2_000 });
      assert.equal("revokedAt" in revoked && revoked.revokedAt, 2_000);
      const again = await other.revokeKey(key.id, { ...by, at: 3_000 });
      assert.equal("revokedAt" in again && again.revokedAt, 2_000);
      const revocations = (await one.changes()).filter(({ action }) => action === "key.revoke");
      assert.equal(revocations.length, 1);
      assert.equal(failure(await other.setKey(key.id, { name: "x" }, by)), "conflict");
      assert.equal(failure(await other.rotateKey(key.id, 1, by)), "conflict");
    });

    test("an expired key cannot be changed, and a rotated one does not live longer than before", async (t) => {
      const { one, other } = await open(t);
      const { key } = await issue(one, await acme(one), { expiresAt: 3_000 });
      const rotated = await one.rotateKey(key.id, 5_000, { ...by, at: 2_000 });
      assert.ok("text" in rotated);
      assert.equal(rotated.replaced.expiresAt, 3_000);
      const later = { ...by, at: 4_000 };
      const expired = { failed: "conflict", message: `${rotated.key.id} is expired` };
      assert.deepEqual(await other.setKey(rotated.key.id, { expiresAt: null }, later), expired);
      assert.deepEqual(await other.rotateKey(rotated.key.id, 1, later), expired);
    });

    test("a key that two gateways rotate at the same time gets one successor", async (t) => {
      const { one, other } = await open(t);
      const workspace = await acme(one);
      const bound = { expiresAt: 9_000, allowedAddresses: ["10.0.0.1"] };
      const { key } = await issue(one, workspace, bound);
      const at = { ...by, at: 2_000 };
      const results = await Promise.all(
        [one, other, one].map(async (store) => store.rotateKey(key.id, 500, at)),
      );
      const [rotated, ...more] = results.filter((result) => "text" in result);
      assert.ok(rotated !== undefined && more.length === 0);
      assert.equal(rotated.replaced.expiresAt, 2_500);
      const same = { createdAt: 2_000, expiresAt: 10_000 };
      assert.deepEqual(rotated.key, { ...key, id: rotated.key.id, ...same }, "the same lifetime");
      assert.equal((await other.findKey(key.id))?.rotatedTo, rotated.key.id);
      assert.equal((await one.listKeys(workspace.id)).length, 2);
      for (const expiresAt of [null, 2_501]) {
        assert.equal(failure(await one.setKey(key.id, { expiresAt }, at)), "conflict");
      }
      const sooner = await one.setKey(key.id, { expiresAt: 2_499 }, at);
      assert.equal("id" in sooner && sooner.expiresAt, 2_499);
    });

    test("an author with a limit makes active keys up to it, also at the same time on two gateways", async (t) => {
      const { one, other } = await open(t);
      const workspace = await acme(one);
      const { key: first } = await issue(one, workspace);
      const limited = { ...by, at: 2_000, maxActiveKeys: 3 };
      const wanted = {
        workspaceId: workspace.id,
        name: "more",
        environment: "dev",
        capabilities: ["inference"],
      } as const;
      const results = await Promise.all(
        [one, other, one, other].map(async (store) => store.createKey(wanted, limited)),
      );
      const [refused, ...more] = results.filter((result) => "failed" in result);
      assert.equal(more.length, 1, "two of the four are refused");
      assert.match(refused?.message ?? "", /allows 3 active keys/);
      assert.equal(failure(await one.rotateKey(first.id, 500, limited)), "conflict");
      const rotated = await other.rotateKey(first.id, 0, limited);
      assert.equal(failure(rotated), undefined, "without an overlap, a full workspace can rotate");
      const created = await one.createKey(wanted, { ...limited, maxActiveKeys: undefined });
      assert.equal(failure(created), undefined, "operators have no limit");
      for (const { id } of await one.listKeys(workspace.id)) await one.revokeKey(id, limited);
      assert.equal(failure(await other.createKey(wanted, limited)), undefined);
      const details = (await one.changes()).find(({ action }) => action === "key.create")?.details;
      assert.ok(!JSON.stringify(details).includes("maxActiveKeys"));
    });

    test("purchases made at the same time are all counted, up to the safe integers", async (t) => {
      const { one, other } = await open(t);
      const { id } = await acme(one);
      const results = await Promise.all(
        Array.from({ length: 20 }, async (_, n) =>
          (n % 2 === 0 ? one : other).purchase(id, n + 1, by),
        ),
      );
      const purchases = new Set(results.map((each) => "purchaseId" in each && each.purchaseId));
      assert.equal(purchases.size, 20);
      for (const purchase of purchases) assert.match(String(purchase), /^pur_[0-9a-f]{24}$/);
      assert.equal((await one.findWorkspace(id))?.purchasedTotalMilliCu, 210);
      const rest = Number.MAX_SAFE_INTEGER - 210;
      assert.equal(failure(await other.purchase(id, rest + 1, by)), "conflict");
      assert.equal(failure(await other.purchase(id, rest, by)), undefined);
      const total = (await one.findWorkspace(id))?.purchasedTotalMilliCu;
      assert.equal(total, Number.MAX_SAFE_INTEGER);
      assert.equal((await one.changes()).length, 22, "a purchase that is refused is not logged");
    });

    test("an upgrade takes effect at once and a downgrade at the given time", async (t) => {
      const { one, other } = await open(t);
      const { id } = await acme(one);
      assert.equal(failure(await one.upgrade(id, "developer", by)), "conflict");
      assert.equal(
        failure(await one.downgrade(id, { plan: "startup", at: 5_000 }, by)),
        "conflict",
      );
      assert.equal(failure(await one.cancelDowngrade(id, by)), "conflict");
      await one.downgrade(id, { plan: "free", at: 5_000 }, by);
      const pending = await other.findWorkspace(id);
      assert.deepEqual(
        [pending?.plan, pending?.pendingPlan, pending?.pendingPlanAt],
        ["developer", "free", 5_000],
      );
      await other.upgrade(id, "startup", by);
      const now = await one.findWorkspace(id);
      assert.deepEqual([now?.plan, now?.pendingPlan], ["startup", undefined]);
      await one.setWorkspace(id, { overageLimitCuMilli: 7 }, by);
      await one.setWorkspace(id, { plan: "free" }, by);
      const set = await other.findWorkspace(id);
      assert.deepEqual([set?.plan, set?.overageLimitCuMilli], ["free", 7]);
      await other.setWorkspace(id, { overageLimitCuMilli: null }, by);
      const last = await one.findWorkspace(id);
      assert.deepEqual([last?.plan, last?.overageLimitCuMilli], ["free", undefined]);
    });

    test("plans are compared with the one in force, and an upgrade cancels a downgrade", async (t) => {
      const { one, other } = await open(t);
      const { id } = await acme(one);
      const upgrades = await Promise.all(
        [one, other, one, other].map((store) => store.upgrade(id, "startup", by)),
      );
      assert.equal(upgrades.filter((result) => "plan" in result).length, 1);
      await one.downgrade(id, { plan: "free", at: 5_000 }, by);
      const second = await other.downgrade(id, { plan: "developer", at: 5_000 }, by);
      assert.equal("pendingPlan" in second && second.pendingPlan, "developer");
      await one.upgrade(id, "enterprise", by);
      const { details } = (await one.changes()).at(-1) ?? assert.fail();
      assert.deepEqual(details, { from: "startup", to: "enterprise", calledOff: "developer" });
      const due = { ...by, at: 5_000 };
      const none = { failed: "conflict", message: "no downgrade is pending" };
      await one.downgrade(id, { plan: "free", at: 5_000 }, by);
      assert.ok("plan" in (await other.cancelDowngrade(id, by)));
      assert.deepEqual(await one.cancelDowngrade(id, by), none);
      await one.downgrade(id, { plan: "free", at: 5_000 }, by);
      assert.deepEqual(await other.cancelDowngrade(id, due), none);
      assert.deepEqual(await one.downgrade(id, { plan: "free", at: 9_000 }, due), {
        failed: "conflict",
        message: "free is not a downgrade from free",
      });
      const up = await one.upgrade(id, "developer", due);
      assert.deepEqual("plan" in up && [up.plan, up.pendingPlan], ["developer", undefined]);
    });

    test("each gateway sees the changes of all others once", async (t) => {
      const { one, other } = await open(t);
      const workspace = await acme(one);
      const { key, text } = await issue(one, workspace);
      const { key: neighbour } = await issue(one, workspace);
      await other.changed();
      const none = { keys: [], overrides: undefined, hasLostChanges: false };
      assert.deepEqual(await other.changed(), none);

      await one.revokeKey(key.id, by);
      const { keys } = await other.changed();
      assert.deepEqual(
        keys.map((stored) => [stored.hash, stored.key.revokedAt]),
        [[hashKey(text), 1_000]],
      );
      assert.deepEqual(await other.changed(), none);

      await one.purchase(workspace.id, 5, by);
      const ofWorkspace = (await other.changed()).keys;
      assert.deepEqual(
        ofWorkspace.map((stored) => stored.key.id).toSorted(),
        [key.id, neighbour.id].toSorted(),
      );
      assert.ok(ofWorkspace.every((stored) => stored.workspace.purchasedTotalMilliCu === 5));
      assert.ok((await one.changed()).keys.length > 0, "its own changes, too");
    });

    test("overrides are replaced as a whole, network by network, in their order", async (t) => {
      const { one, other, restart } = await open(t);
      const model = (id: string) => ({ id, enabled: true, ownedBy: "me", priceCoefficient: 3 });
      const classes = { prompt: "1", cached: "0.5", completion: "3", reasoning: "4" };
      const priced = { ...model("y"), prices: { pricePerTokenNano: "4", classes } };
      await one.replaceOverrides("a", [model("z"), priced], by);
      await other.replaceOverrides("b", [model("x")], by);
      await other.replaceOverrides("b", [], by);
      const { overrides } = await other.changed();
      assert.deepEqual([...(overrides?.get("a")?.keys() ?? [])], ["z", "y"]);
      assert.deepEqual(overrides?.get("a")?.get("z"), model("z"));
      assert.deepEqual(overrides?.get("a")?.get("y"), priced);
      assert.equal(overrides?.get("b"), undefined);
      assert.deepEqual(await (await restart()).overrides(), overrides);
    });

    test("an earlier time of last use does not replace a later one", async (t) => {
      const { one, other } = await open(t);
      const { key } = await issue(one, await acme(one));
      await one.saveUse([{ keyId: key.id, usedAt: 20 }]);
      await other.saveUse([{ keyId: key.id, usedAt: 10 }]);
      assert.equal((await other.findKey(key.id))?.lastUsedAt, 20);
    });

    test("the audit log has every change once, in the order of commits, in pages", async (t) => {
      const { one, other, restart } = await open(t);
      const workspace = await acme(one);
      await acme(other);
      const { key } = await issue(other, workspace);
      await one.setKey(key.id, { cuLimit24hMilli: null }, by);
      const all = await other.changes();
      assert.deepEqual(
        all.map(({ action }) => action),
        ["workspace.create", "workspace.create", "key.create", "key.set"],
      );
      const ids = all.map(({ id }) => id);
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
      const ofWorkspace = await one.changes({
        workspaceId: workspace.id,
        after: ids[0]!,
        limit: 1,
      });
      assert.deepEqual(ofWorkspace, [all[2]]);
      assert.deepEqual(all[3], {
        id: ids[3],
        ...by,
        action: "key.set",
        workspaceId: workspace.id,
        keyId: key.id,
        details: { cuLimit24hMilli: null },
      });
      assert.deepEqual(await (await restart()).changes(), all);
    });

    test("a transaction commits all of its changes or none of them", async (t) => {
      const { one, other } = await open(t);
      const { id } = await acme(one);
      const bug = new Error("a bug");
      const before = await other.changes();
      const undone = async (): Promise<never> => {
        await one.purchase(id, 5, by);
        await one.transaction(async () => one.upgrade(id, "startup", by));
        throw bug;
      };
      await assert.rejects(async () => one.transaction(undone), bug);
      assert.deepEqual(await other.findWorkspace(id), await one.findWorkspace(id));
      assert.equal((await other.findWorkspace(id))?.purchasedTotalMilliCu, 0);
      assert.deepEqual(await other.changes(), before);

      const kept = await one.transaction(async () => {
        await one.purchase(id, 5, by);
        await one.upgrade(id, "startup", by);
        assert.equal((await other.findWorkspace(id))?.plan, "developer", "not committed yet");
        return "kept";
      });
      assert.equal(kept, "kept");
      const workspace = await other.findWorkspace(id);
      assert.deepEqual([workspace?.plan, workspace?.purchasedTotalMilliCu], ["startup", 5]);
    });

    test("a change of another caller does not become part of a transaction that waits", async (t) => {
      const { one, other } = await open(t);
      const { id } = await acme(one);
      const held = Promise.withResolvers<void>();
      const undone = one.transaction(async () => {
        await one.purchase(id, 5, by);
        await held.promise;
        throw new Error("undone");
      });
      const outside = one.purchase(id, 7, by);
      held.resolve();
      await assert.rejects(async () => undone, /undone/);
      assert.ok("purchaseId" in (await outside));
      assert.equal((await other.findWorkspace(id))?.purchasedTotalMilliCu, 7);
    });

    test("workspaces, keys and changes are searched in any case, newest first, one page after the other", async (t) => {
      const { one, other } = await open(t);
      const first = await acme(one);
      const second = await one.createWorkspace(
        { name: "Beta", plan: "free" },
        { ...by, at: 2_000 },
      );
      const ids = async (text: string, skip = 0, limit = 10): Promise<string[]> =>
        (await other.searchWorkspaces({ text, skip, limit })).map(({ id }) => id);
      assert.deepEqual(await ids(""), [second.id, first.id]);
      assert.deepEqual(await ids("aCm"), [first.id]);
      assert.deepEqual(await ids(second.id), [second.id]);
      assert.deepEqual(await ids("", 1), [first.id]);
      assert.deepEqual(await ids("", 0, 1), [second.id]);

      const keys = [await issue(one, first), await issue(one, first)].map(({ key }) => key.id);
      const search = { workspaceId: first.id, text: "", activeAt: undefined, limit: 1 };
      const page = async (skip: number): Promise<string[]> =>
        (await other.searchKeys({ ...search, skip })).map(({ key }) => key.id);
      assert.deepEqual([await page(0), await page(1), await page(2)], [[keys[1]], [keys[0]], []]);

      const all = (await one.changes()).toReversed();
      const everything = { workspaceId: undefined, text: "", before: undefined, limit: 10 };
      assert.deepEqual(await other.searchChanges(everything), all);
      assert.deepEqual(
        await other.searchChanges({ ...everything, before: all[0]?.id, limit: 1 }),
        all.slice(1, 2),
      );
      const byName = await other.searchChanges({ ...everything, text: "BETA" });
      assert.deepEqual(
        byName.map(({ workspaceId }) => workspaceId),
        [second.id],
      );
      assert.deepEqual(await other.searchChanges({ ...everything, workspaceId: "ws_none" }), []);
    });

    test("listeners are notified of a change after its commit and before its answer", async (t) => {
      const { one } = await open(t);
      const { id } = await acme(one);
      const seen: (number | undefined)[] = [];
      one.onCommit(async () => {
        seen.push((await one.findWorkspace(id))?.purchasedTotalMilliCu);
      });
      await one.transaction(async () => {
        await one.purchase(id, 1, by);
        await one.purchase(id, 1, by);
      });
      await one.purchase(id, 1, by);
      assert.deepEqual(seen, [2, 3]);
    });
  });
}
