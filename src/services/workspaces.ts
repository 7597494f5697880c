/**
 * The service `host.workspaces`, a workspace as its own administrators see and change it: implemented in src/accounts.
 */
import type { PlanName } from "./accounts.ts";
import type { ChangedBy } from "./networks.ts";

/** A workspace as clients see it (decisions.md section 1): RFC 3339 times, no absent members. */
// A type alias, not an interface: only that fits where any flat record is taken.
export type WorkspaceJson = {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pending_plan?: PlanName;
  readonly pending_plan_at?: string;
  /** What is left of all purchases. */
  readonly purchased_cu_milli: number;
  readonly overage_limit_cu_milli?: number;
  readonly created_at: string;
};

export interface PurchaseJson {
  readonly purchase_id: string;
  readonly amount_cu_milli: number;
  readonly workspace: WorkspaceJson;
}

/** One entry of the record of changes, which only ever grows. */
export interface ChangeJson {
  /** Ascending in the order of commits. */
  readonly id: number;
  readonly time: string;
  /** The id of a key, or `cli:<user>`. */
  readonly actor: string;
  readonly request_id?: string;
  /** Absent: a change of the deployment's own. */
  readonly workspace_id?: string;
  /** The key that was changed. */
  readonly key_id?: string;
  readonly action: string;
  /** What was set, never a secret. */
  readonly details: unknown;
}

/** By what a usage report may be divided; `day` is a calendar day in UTC. */
export type UsageMember = "key" | "surface" | "method" | "model" | "day";

export interface UsageQuery {
  /** Milliseconds since 1970, the first instant that counts; undefined: the start of the running billing period. */
  readonly from: number | undefined;
  /** The first instant that no longer counts; undefined: the end of the running billing period. */
  readonly to: number | undefined;
  readonly groupBy: readonly UsageMember[];
}

/**
 * `conflict` and `invalid` say in `message` what is wrong; `unavailable`: the store or its threads cannot serve now.
 */
export type WorkspaceAnswer<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "notFound" }
  | { readonly kind: "conflict" | "invalid"; readonly message: string }
  | { readonly kind: "unavailable" };

/**
 * Changes are synchronous, and with their entry in the record of changes on disk when they return; every gateway on the
 * same store follows within 1 s. Who may ask for which workspace is the caller's to judge.
 */
export interface Workspaces {
  find(id: string): WorkspaceAnswer<WorkspaceJson>;
  /** To a higher plan, at once; calls a pending downgrade off. */
  upgrade(id: string, plan: PlanName, by: ChangedBy): WorkspaceAnswer<WorkspaceJson>;
  /** To a lower plan, from the first instant of the next billing period on. */
  downgrade(id: string, plan: PlanName, by: ChangedBy): WorkspaceAnswer<WorkspaceJson>;
  /** `conflict` when none is pending. */
  cancelDowngrade(id: string, by: ChangedBy): WorkspaceAnswer<WorkspaceJson>;
  /** `amountCuMilli`: a positive safe integer, else RangeError. */
  purchase(id: string, amountCuMilli: number, by: ChangedBy): WorkspaceAnswer<PurchaseJson>;
  /** At most `limit` changes after the one with id `after`, oldest first. */
  changes(
    id: string,
    page: { readonly after: number; readonly limit: number },
  ): WorkspaceAnswer<readonly ChangeJson[]>;
  /**
   * What was charged, as the JSON of decisions.md section 10. Added up in a thread, one report at a time: `unavailable`
   * when too many wait or it takes too long, `invalid` for a range that ends before it starts and for too many groups.
   */
  usage(id: string, query: UsageQuery, signal?: AbortSignal): Promise<WorkspaceAnswer<Uint8Array>>;
}
