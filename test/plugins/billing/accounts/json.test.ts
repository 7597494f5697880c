import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyRecord, Workspace } from "sluice-gateway/services";
import { keyJson, workspaceJson } from "../../../../plugins/billing/accounts/json.ts";

const now = Date.UTC(2026, 2, 1);
const workspace: Workspace = {
  id: "ws_1",
  name: "Acme",
  plan: "startup",
  pendingPlan: undefined,
  pendingPlanAt: undefined,
  purchasedTotalMilliCu: 9_000,
  overageLimitCuMilli: undefined,
  createdAt: Date.UTC(2026, 0, 15, 12, 30, 0, 250),
};
const key: KeyRecord = {
  id: "key_1",
  workspaceId: "ws_1",
  name: "",
  environment: "dev",
  capabilities: new Set(["ledger:read", "inference"]),
  rpsLimit: undefined,
  cuLimit24hMilli: undefined,
  cuLimit30dMilli: undefined,
  allowedAddresses: undefined,
  createdAt: Date.UTC(2026, 0, 15),
  expiresAt: undefined,
  revokedAt: undefined,
  lastUsedAt: undefined,
  rotatedTo: undefined,
};

test("the JSON of a workspace has no members for unset options, and shows the remaining credit", () => {
  assert.deepStrictEqual(workspaceJson(workspace, 1_234, now), {
    id: "ws_1",
    name: "Acme",
    plan: "startup",
    purchased_cu_milli: 1_234,
    created_at: "2026-01-15T12:30:00.250Z",
  });
});

test("a pending plan is shown until it is in force", () => {
  const pending = {
    ...workspace,
    pendingPlan: "free",
    pendingPlanAt: now,
    overageLimitCuMilli: 0,
  } as const;
  const before = workspaceJson(pending, 0, now - 1);
  assert.equal(before.plan, "startup");
  assert.equal(before.pending_plan, "free");
  assert.equal(before.pending_plan_at, "2026-03-01T00:00:00.000Z");
  assert.equal(before.overage_limit_cu_milli, 0);
  const after = workspaceJson(pending, 0, now);
  assert.equal(after.plan, "free");
  assert.ok(!("pending_plan" in after) && !("pending_plan_at" in after));
});

test("the JSON of a key has no members for unset options", () => {
  assert.deepStrictEqual(keyJson(key, now), {
    id: "key_1",
    workspace_id: "ws_1",
    name: "",
    environment: "dev",
    capabilities: ["ledger:read", "inference"],
    state: "active",
    created_at: "2026-01-15T00:00:00.000Z",
  });
});

test("the JSON of a key shows all options but no internal members", () => {
  const full: KeyRecord = {
    ...key,
    rpsLimit: 5,
    cuLimit24hMilli: 0,
    cuLimit30dMilli: 3,
    expiresAt: now,
    revokedAt: now + 1,
    lastUsedAt: now - 1,
    rotatedTo: "key_2",
  };
  assert.deepStrictEqual(keyJson(full, now), {
    id: "key_1",
    workspace_id: "ws_1",
    name: "",
    environment: "dev",
    capabilities: ["ledger:read", "inference"],
    rps_limit: 5,
    cu_limit_24h_milli: 0,
    cu_limit_30d_milli: 3,
    state: "revoked",
    created_at: "2026-01-15T00:00:00.000Z",
    expires_at: "2026-03-01T00:00:00.000Z",
    revoked_at: "2026-03-01T00:00:00.001Z",
    last_used_at: "2026-02-28T23:59:59.999Z",
  });
});
