import { waitForGateways } from "../../../plugins/billing/commands/accounts.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { openPostgres } from "../../../src/store/postgres/postgres.ts";
import type { LimitedScope, Revocation } from "../../checker/history.ts";
import { openPostgresAccounts } from "../../plugins/billing/accounts/open-accounts.ts";
import { smallMilliCu } from "./pipeline.ts";

export interface ClientKey {
  readonly keyId: string;
  readonly text: string;
  readonly workspaceId: string;
}

export interface Accounts extends AsyncDisposable {
  readonly rich: ClientKey;
  /** A key with the request rate `rateLimit`. */
  readonly slow: ClientKey;
  /** A key of a small workspace that buys credit. */
  readonly shop: ClientKey;
  /** The clients spend these keys one after the other. */
  readonly limitedKeys: readonly ClientKey[];
  readonly smallWorkspaces: readonly ClientKey[];
  readonly toRevoke: readonly ClientKey[];
  readonly scopes: readonly LimitedScope[];
  /** Revokes a key, and waits until the replicas have confirmed it. Undefined if the outcome is not known. */
  revoke(key: ClientKey, now: () => number): Promise<Revocation | undefined>;
}

export const rateLimit = { perSecond: 5, burst: 10 };

/** `counts`: number of limited keys, of small workspaces and of keys to revoke. */
export async function createAccounts(
  url: string,
  counts: { readonly limited: number; readonly toRevoke: number },
): Promise<Accounts> {
  const pool = openPostgres({
    url,
    replica: "accounts",
    metrics: createMetrics(),
    statementMs: 4_000,
  });
  const { store } = await openPostgresAccounts(pool);
  const by = { actor: "campaign", at: Date.now() };
  const createWorkspace = async (plan: "free" | "enterprise"): Promise<string> =>
    (await store.createWorkspace({ name: plan, plan }, by)).id;
  const createKey = async (
    workspaceId: string,
    limits: { readonly cuLimit24hMilli?: number; readonly rpsLimit?: number } = {},
  ): Promise<ClientKey> => {
    const capabilities = ["ledger:read", "ledger:write", "inference", "workspace:admin"] as const;
    const wanted = { workspaceId, name: "", environment: "dev", capabilities, ...limits } as const;
    const issued = await store.createKey(wanted, by);
    if ("failed" in issued) throw new Error(issued.message);
    return { keyId: issued.key.id, text: issued.text, workspaceId };
  };
  const repeat = async <T>(count: number, create: () => Promise<T>): Promise<T[]> => {
    const all: T[] = [];
    for (let n = 0; n < count; n++) all.push(await create());
    return all;
  };
  const main = await createWorkspace("enterprise");
  const limits = { cuLimit24hMilli: smallMilliCu };
  const limitedKeys = await repeat(counts.limited, () => createKey(main, limits));
  const small = async (): Promise<ClientKey> => createKey(await createWorkspace("free"));
  const smallWorkspaces = await repeat(counts.limited, small);
  const shop = await small();
  const limit = { limitMilliCu: smallMilliCu, isFixed: true };
  return {
    rich: await createKey(main),
    slow: await createKey(main, { rpsLimit: rateLimit.perSecond }),
    shop,
    limitedKeys,
    smallWorkspaces,
    toRevoke: await repeat(counts.toRevoke, () => createKey(main)),
    scopes: [
      ...limitedKeys.map(({ keyId: id }) => ({ kind: "key", id, ...limit }) as const),
      ...smallWorkspaces.map(
        ({ workspaceId: id }) => ({ kind: "workspace", id, ...limit }) as const,
      ),
      { kind: "workspace", id: shop.workspaceId, ...limit, isFixed: false },
    ],
    async revoke({ keyId }, now) {
      try {
        const revoked = await store.revokeKey(keyId, { ...by, at: Date.now() });
        if ("failed" in revoked) throw new Error(revoked.message);
        const committedAt = now();
        const context = { printToStderr: () => {} };
        const seen = await waitForGateways(context as never, store);
        const confirmedBy = seen?.confirmed_by ?? [];
        const notConfirmedBy = seen?.not_confirmed_by ?? [];
        return { keyId, committedAt, confirmedAt: now(), confirmedBy, notConfirmedBy };
      } catch {
        // The database cannot be reached, so the key is not checked.
        return undefined;
      }
    },
    async [Symbol.asyncDispose]() {
      await pool.close();
    },
  };
}
