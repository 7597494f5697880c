/** Callers whom a plugin has authenticated by itself: their principals follow the workspaces of the store. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { inspect } from "node:util";
import type { CallerClaims, Workspace } from "sluice-gateway/services";
import type { AccountStore } from "../../../../plugins/billing/accounts/account-store.ts";
import { openAccountsOn } from "./open-accounts.ts";
import { accountsFixture, known, refusal, type AccountsFixture } from "./fixture.ts";

const freshMs = 1_000;
const pollMs = 250;
const ada = { id: "oidc_ada", capabilities: ["ledger:read", "inference"] } as const;

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

interface BreakableStore {
  readonly store: Mutable<AccountStore>;
  readonly reads: string[];
  isUnavailable: boolean;
}

async function breakableStore({ sql }: AccountsFixture): Promise<BreakableStore> {
  const { store: whole } = await openAccountsOn(sql);
  const store = { ...whole };
  const breakable: BreakableStore = { store, reads: [], isUnavailable: false };
  const readable = (): void => {
    if (breakable.isUnavailable) throw new Error("the store is unavailable");
  };
  store.findWorkspace = async (id) => {
    breakable.reads.push(id);
    readable();
    return whole.findWorkspace(id);
  };
  store.changed = async () => {
    readable();
    return whole.changed();
  };
  return breakable;
}

async function claimsFixture(t: TestContext) {
  const fixture = await accountsFixture(t);
  const breakable = await breakableStore(fixture);
  const accounts = await fixture.open({ store: breakable.store });
  const claims: CallerClaims = { ...ada, workspaceId: fixture.workspace.id };
  return { ...fixture, breakable, accounts, claims };
}

test("the plan of the claims is used first, then that of the workspace, then the default plan", async (t) => {
  const { accounts, claims } = await claimsFixture(t);
  const planOf = async (changes: Partial<CallerClaims>): Promise<string> => {
    const { plan, workspace } = await known(accounts.identifyClaims({ ...claims, ...changes }));
    assert.equal(workspace.plan, plan.name);
    return plan.name;
  };
  const unknown = { workspaceId: "org_9" };
  assert.equal(await planOf({ plan: "free", defaultPlan: "enterprise" }), "free");
  assert.equal(await planOf({ defaultPlan: "enterprise" }), "developer");
  assert.equal(await planOf({ ...unknown, defaultPlan: "enterprise" }), "enterprise");
  assert.equal(await planOf({ ...unknown, plan: "free" }), "free");
  assert.equal(await refusal(accounts.identifyClaims({ ...claims, ...unknown })), "unauthorized");
});

test("while the store cannot be read, callers of known workspaces remain known and the others are unavailable", async (t) => {
  const { accounts, claims, clock, breakable, lines, store, idle, by } = await claimsFixture(t);
  const first = await accounts.identifyClaims(claims);
  breakable.isUnavailable = true;
  // The read of the workspace is the first one that fails.
  const workspaceReads = breakable.reads.length;
  clock.advance(freshMs);
  await idle();
  assert.equal(await accounts.identifyClaims(claims), first);
  assert.equal(
    (await known(accounts.identifyClaims({ ...claims, id: "oidc_eve" }))).key.id,
    "oidc_eve",
  );
  const unknown: CallerClaims = { ...claims, workspaceId: "org_9", defaultPlan: "free" };
  assert.deepEqual(await accounts.identifyClaims(unknown), { kind: "unavailable" });
  // A known workspace is not read again, so no caller waits for a store that is unavailable.
  assert.deepEqual(breakable.reads.slice(workspaceReads), ["org_9"]);
  const logged = lines.filter((line) => line.startsWith("error cannot read accounts"));
  assert.equal(logged.length, 1);

  await store.setWorkspace(claims.workspaceId, { plan: "startup" }, by());
  breakable.isUnavailable = false;
  clock.advance(pollMs);
  await idle();
  assert.equal((await known(accounts.identifyClaims(claims))).plan.name, "startup");
  assert.equal((await known(accounts.identifyClaims(unknown))).plan.name, "free");
});

test("requests that arrive together read the workspace once, from a store that answers with promises", async (t) => {
  const { accounts, claims, clock, breakable, workspace, idle } = await claimsFixture(t);
  let reading = Promise.withResolvers<Workspace | undefined>();
  breakable.store.findWorkspace = (id) => {
    breakable.reads.push(id);
    return reading.promise;
  };
  const identifyTen = () =>
    Promise.all(Array.from({ length: 10 }, async () => accounts.identifyClaims(claims)));
  const together = identifyTen();
  reading.resolve(workspace);
  const [first, ...others] = await together;
  assert.ok(others.every((each) => each === first));
  assert.deepEqual(breakable.reads, [workspace.id]);
  // A workspace in memory needs no promise.
  assert.equal(accounts.identifyClaims(claims), first);

  // A read that fails is not repeated for those who wait, and the next one asks again.
  reading = Promise.withResolvers();
  const unknown = { ...claims, workspaceId: "ws_2" };
  const identify = async () => accounts.identifyClaims(unknown);
  const waiting = [identify(), identify()];
  reading.reject(new Error("the store is unavailable"));
  const unavailable = { kind: "unavailable" };
  assert.deepEqual(await Promise.all(waiting), [unavailable, unavailable]);
  assert.deepEqual(breakable.reads, [workspace.id, "ws_2"]);
  reading = Promise.withResolvers();
  reading.resolve(undefined);
  clock.advance(pollMs);
  await idle();
  assert.equal((await accounts.identifyClaims(unknown)).kind, "anonymous");
});

test("a caller is refused from its expiry on, and the id of an API key is refused", async (t) => {
  const { accounts, claims, clock, issue, idle } = await claimsFixture(t);
  const expiring = { ...claims, expiresAt: clock.now() + 100 };
  assert.equal((await known(accounts.identifyClaims(expiring))).key.expiresAt, expiring.expiresAt);
  clock.advance(99);
  await idle();
  await known(accounts.identifyClaims(expiring));
  clock.advance(1);
  await idle();
  assert.equal(await refusal(accounts.identifyClaims(expiring)), "unauthorized");
  const { key } = await issue();
  assert.equal(await refusal(accounts.identifyClaims({ ...claims, id: key.id })), "unauthorized");
});

/** Claims as a server of others may send them. */
const hostile: readonly Readonly<Record<string, unknown>>[] = [
  { id: "" },
  { id: "oidc_ada\n" },
  { id: "oidc_\ud800" },
  { id: `oidc_${"a".repeat(508)}` },
  { id: ["oidc_ada"] },
  { id: undefined },
  { id: "acme", workspaceId: "acme" },
  { workspaceId: "ws\0" },
  { workspaceId: "" },
  { workspaceId: 7 },
  { plan: "royal" },
  { plan: "constructor" },
  { plan: null },
  { defaultPlan: ["free"] },
  { capabilities: ["inference", "everything"] },
  { capabilities: "inference" },
  { rpsLimit: 0 },
  { rpsLimit: -1 },
  { rpsLimit: 1.5 },
  { rpsLimit: Number.NaN },
  { cuLimit24hMilli: "500" },
  { cuLimit24hMilli: 2 ** 53 },
  { cuLimit30dMilli: null },
  { expiresAt: Number.NaN },
  { expiresAt: Infinity },
  { expiresAt: "tomorrow" },
];

test("claims with wrong values are refused, and nothing is read for them", async (t) => {
  const { accounts, claims, breakable } = await claimsFixture(t);
  for (const changes of hostile) {
    const caller = await accounts.identifyClaims({ ...claims, defaultPlan: "free", ...changes });
    assert.equal(await refusal(caller), "unauthorized", inspect(changes));
  }
  assert.deepEqual(breakable.reads, []);
});
