/** Tests of the accounts as gateways and commands see them: callers, changes of others, overrides and the audit log. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ChangeJson, ModelOverride } from "sluice-gateway/services";
import { until } from "../plugins/billing/shipping/fixture.ts";
import {
  createKey,
  day,
  hour,
  iso,
  principalOf,
  type ContractGateway,
  type OpenGateways,
  type StoreGateways,
} from "./gateways.ts";

const model = (id: string): ModelOverride => ({
  id,
  enabled: true,
  ownedBy: "me",
  priceCoefficient: 3,
});
const by = { actor: "test", requestId: "req-1" };

async function reason({ accounts }: ContractGateway, text: string): Promise<string> {
  const caller = await accounts.identify(`Bearer ${text}`);
  return "reason" in caller && caller.reason !== undefined ? caller.reason : caller.kind;
}

async function json(
  { run }: StoreGateways,
  ...argv: readonly string[]
): Promise<Record<string, unknown>> {
  const { code, out, err } = await run(...argv, "--json");
  assert.equal(code, 0, err.join("\n"));
  return JSON.parse(out.at(-1) ?? "") as Record<string, unknown>;
}

async function audit({ run }: StoreGateways, ...argv: readonly string[]): Promise<ChangeJson[]> {
  const { code, out, err } = await run("audit", ...argv, "--json");
  assert.equal(code, 0, err.join("\n"));
  return out.map((line) => JSON.parse(line) as ChangeJson);
}

export function describeCallers(name: string, open: OpenGateways): void {
  describe(`callers and accounts: ${name}`, () => {
    test("a key that a command creates works on every gateway, and stops when a command revokes it", async (t) => {
      const gateways = await open(t);
      const { id } = await json(gateways, "workspaces", "create", "--name", "W", "--plan", "free");
      const workspace = ["--workspace", String(id)];
      const created = await json(gateways, "keys", "create", ...workspace, "--cu-24h", "500");
      const text = String(created["key"]);
      for (const gateway of [gateways.one, gateways.other]) {
        const { key, plan } = await principalOf(gateway, { text });
        assert.deepEqual([key.cuLimit24hMilli, plan.name], [500, "free"]);
      }
      await json(gateways, "keys", "set", String(created["id"]), "--cu-24h", "none");
      await json(gateways, "workspaces", "set", String(id), "--plan", "startup");
      for (const gateway of [gateways.one, gateways.other]) {
        await until(async () => {
          const { key, plan } = await principalOf(gateway, { text });
          return key.cuLimit24hMilli === undefined && plan.name === "startup";
        });
      }
      await json(gateways, "keys", "revoke", String(created["id"]));
      for (const gateway of [gateways.one, gateways.other]) {
        await until(async () => (await reason(gateway, text)) === "unauthorized");
      }
      await gateways.pass(0);
      assert.equal(await reason(gateways.one, text), "unauthorized");
    });

    test("a revocation on one gateway is in force there at once, and soon on the others", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "developer");
      await principalOf(gateways.other, key);
      const at = gateways.now();
      await gateways.one.accounts.admin.revokeKey(key.keyId, { actor: "test", at });
      assert.equal(await reason(gateways.one, key.text), "unauthorized");
      await until(async () => (await reason(gateways.other, key.text)) === "unauthorized");
    });

    test("a rotated key works until its overlap ends, and its successor from the beginning", async (t) => {
      const gateways = await open(t);
      const old = await createKey(gateways, "developer", {
        rpsLimit: 3,
        expiresAt: gateways.now() + 5 * day,
      });
      const author = { actor: "test", at: gateways.now() };
      const rotated = await gateways.one.accounts.admin.rotateKey(old.keyId, hour, author);
      assert.ok("text" in rotated);
      const { key } = await principalOf(gateways.other, rotated);
      assert.deepEqual([key.rpsLimit, key.expiresAt], [3, gateways.now() + 5 * day]);
      await gateways.pass(hour - 1);
      assert.equal((await principalOf(gateways.other, old)).key.id, old.keyId);
      await gateways.pass(1);
      assert.notEqual(await reason(gateways.other, old.text), "key");
      assert.equal((await principalOf(gateways.one, rotated)).key.id, rotated.key.id);
      const found = await gateways.one.accounts.admin.findKey(old.keyId);
      assert.equal(found?.rotatedTo, rotated.key.id);
    });

    test("a key that is bound to addresses is refused elsewhere", async (t) => {
      const gateways = await open(t);
      const { text } = await createKey(gateways, "free", {
        allowedAddresses: ["10.0.0.0/8", "::1"],
      });
      const { accounts } = gateways.other;
      const kinds = ["10.9.8.7", "::1", "11.0.0.1"].map(
        async (address) => (await accounts.identify(`Bearer ${text}`, address)).kind,
      );
      assert.deepEqual(await Promise.all(kinds), ["key", "key", "anonymous"]);
    });

    test("the last use of a key is stored when its gateway stops", async (t) => {
      const gateways = await open(t);
      const key = await createKey(gateways, "free");
      await gateways.pass(hour);
      await principalOf(gateways.other, key);
      const used = gateways.now();
      await gateways.pass(day);
      assert.equal((await gateways.one.accounts.admin.findKey(key.keyId))?.lastUsedAt, used);
      const { out } = await gateways.run("keys", "list", "--json");
      assert.partialDeepStrictEqual(JSON.parse(out.join("")), [{ last_used_at: iso(used) }]);
    });

    test("overrides of models are replaced as a whole, for every gateway and after a restart", async (t) => {
      const gateways = await open(t);
      const { one, other } = gateways;
      const ids = ({ accounts }: ContractGateway, network: string): string[] => [
        ...accounts.overrides(network).keys(),
      ];
      assert.equal(await one.accounts.replaceOverrides("a", [model("z"), model("y")], by), true);
      assert.deepEqual(ids(one, "a"), ["z", "y"]);
      await until(async () => ids(other, "a").length === 2);
      assert.deepEqual(other.accounts.overrides("a").get("z"), model("z"));
      assert.equal(other.accounts.overrides("a"), other.accounts.overrides("a"));
      await other.accounts.replaceOverrides("b", [model("x")], by);
      await other.accounts.replaceOverrides("a", [model("w")], by);
      await until(async () => ids(one, "a").join() === "w" && ids(one, "b").join() === "x");
      await other.accounts.replaceOverrides("b", [], by);
      await gateways.pass(0);
      assert.deepEqual([ids(gateways.one, "a"), ids(gateways.one, "b")], [["w"], []]);
      const actions = (await audit(gateways)).map(({ action }) => action);
      assert.equal(actions.length, 4);
    });

    test("the audit log is the same for commands, customers and operators, has no secret, and comes in pages", async (t) => {
      const gateways = await open(t);
      const expiresAt = gateways.now() + day;
      const limits = { cuLimit24hMilli: 9, expiresAt };
      const { workspaceId, keyId, text } = await createKey(gateways, "developer", limits);
      await gateways.pass(hour);
      const { workspaces, admin } = gateways.one.accounts;
      const purchased = await workspaces.purchase(workspaceId, 500, by);
      assert.equal(purchased.kind === "done" && purchased.value.workspace.purchased_cu_milli, 500);
      await workspaces.downgrade(workspaceId, "free", by);
      await workspaces.cancelDowngrade(workspaceId, by);
      await admin.setKey(keyId, { name: "other" }, { actor: "cli:me", at: gateways.now() });
      const stranger = await createKey(gateways, "free");
      const all = await audit(gateways);
      assert.deepEqual(
        all.map(({ action }) => action),
        [
          "workspace.create",
          "key.create",
          "workspace.purchase",
          "workspace.downgrade",
          "workspace.cancel-downgrade",
          "key.set",
          "workspace.create",
          "key.create",
        ],
      );
      assert.deepEqual(all[1]?.details, {
        workspace_id: workspaceId,
        name: "a key",
        environment: "dev",
        capabilities: [...admin.defaultCapabilities],
        cu_limit_24h_milli: 9,
        expires_at: iso(expiresAt),
      });
      const { id, ...bought } = all[2] ?? assert.fail();
      assert.ok(Number.isSafeInteger(id));
      assert.deepEqual(bought, {
        details: {
          purchase_id: purchased.kind === "done" && purchased.value.purchase_id,
          amount_cu_milli: 500,
        },
        time: iso(gateways.now()),
        actor: "test",
        request_id: "req-1",
        workspace_id: workspaceId,
        action: "workspace.purchase",
      });
      assert.ok(!JSON.stringify(all).includes(text.slice(-16)));
      const own = all.slice(0, 6);
      assert.deepEqual(await audit(gateways, "--workspace", workspaceId), own);
      assert.deepEqual(await audit(gateways, "--after", String(id)), all.slice(3));
      const customer = await gateways.other.accounts.workspaces.changes(workspaceId, {
        after: id,
        limit: 2,
      });
      assert.deepEqual(customer, { kind: "done", value: all.slice(3, 5) });
      const search = { workspaceId: undefined, before: undefined, limit: 100 };
      const { admin: others } = gateways.other.accounts;
      assert.deepEqual(await others.searchChanges({ ...search, text: "" }), all.toReversed());
      assert.deepEqual(
        await others.searchChanges({ ...search, text: stranger.keyId.toUpperCase() }),
        all.slice(7),
      );
    });

    test("commands and services list the same keys and workspaces", async (t) => {
      const gateways = await open(t);
      const { workspaceId, keyId } = await createKey(gateways, "developer", { name: "first" });
      await gateways.pass(hour);
      await createKey(gateways, "free", { name: "second" });
      const { out } = await gateways.run("keys", "list", "--json");
      const [first, second] = JSON.parse(out.join("")) as Record<string, unknown>[];
      assert.deepEqual([first?.["id"], second?.["name"]], [keyId, "second"]);
      const { admin } = gateways.other.accounts;
      const search = { workspaceId: undefined, text: "", activeAt: undefined, limit: 10 };
      const found = await admin.searchKeys(search);
      assert.deepEqual(
        found.map(({ key }) => key.name),
        ["second", "first"],
      );
      assert.deepEqual(found[1] && { ...admin.keyJson(found[1].key) }, first);
      const shown = await gateways.run("workspaces", "list", "--json");
      const listed = JSON.parse(shown.out.join("")) as { id: string }[];
      assert.equal(listed[0]?.id, workspaceId);
      assert.equal((await admin.listWorkspaces(10)).length, 2);
    });
  });
}
