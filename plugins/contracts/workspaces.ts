/** `workspaces` of the service `accounts`: reads and changes workspaces for their administrators. */
import type { ChangedBy, PlanName } from "./principal.ts";

/** A workspace as clients see it (decisions.md section 1). Times are RFC 3339; members without a value are omitted. */
// A type alias, because an interface is not assignable to a record type.
export type WorkspaceJson = {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pending_plan?: PlanName;
  readonly pending_plan_at?: string;
  /** Remaining purchased credit. */
  readonly purchased_cu_milli: number;
  readonly overage_limit_cu_milli?: number;
  readonly created_at: string;
};

export interface PurchaseJson {
  readonly purchase_id: string;
  readonly amount_cu_milli: number;
  readonly workspace: WorkspaceJson;
}

/** One entry of the audit log. Entries are never changed or deleted. */
export interface ChangeJson {
  /** Increases in the order of commits. */
  readonly id: number;
  readonly time: string;
  /** Id of the key that made the change, `cli:<user>`, or `oidc:<subject> (<e-mail>)` for a user of an OpenID provider. */
  readonly actor: string;
  readonly request_id?: string;
  /** Missing if the change concerns the whole deployment. */
  readonly workspace_id?: string;
  readonly key_id?: string;
  readonly action: string;
  /** The new values. Never contains a secret. */
  readonly details: unknown;
}

/** The members by which a usage report can be grouped. `day` is a calendar day in UTC. */
export type UsageMember = "key" | "surface" | "method" | "model" | "day";

export interface UsageQuery {
  /** Inclusive, in milliseconds since 1970. Undefined for the start of the current billing period. */
  readonly from: number | undefined;
  /** Exclusive. Undefined for the end of the current billing period. */
  readonly to: number | undefined;
  readonly groupBy: readonly UsageMember[];
}

/** `message` describes the problem. `unavailable`: the store or its threads cannot be used at the moment. */
export type WorkspaceAnswer<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "notFound" }
  | { readonly kind: "conflict" | "invalid"; readonly message: string }
  | { readonly kind: "unavailable" };

/**
 * When a method has returned, its change and the entry in the audit log are durable. Every gateway on the same store
 * applies the change within one second. The caller must check whether the principal may access the workspace.
 */
export interface Workspaces {
  find(id: string): Promise<WorkspaceAnswer<WorkspaceJson>>;
  /** Switches to a higher plan at once and cancels a pending downgrade. */
  upgrade(id: string, plan: PlanName, by: ChangedBy): Promise<WorkspaceAnswer<WorkspaceJson>>;
  /** Schedules a lower plan for the start of the next billing period. */
  downgrade(id: string, plan: PlanName, by: ChangedBy): Promise<WorkspaceAnswer<WorkspaceJson>>;
  /** Cancels a pending downgrade. `conflict` if no downgrade is pending. */
  cancelDowngrade(id: string, by: ChangedBy): Promise<WorkspaceAnswer<WorkspaceJson>>;
  /** `amountCuMilli`: a positive safe integer; anything else throws a RangeError. */
  purchase(
    id: string,
    amountCuMilli: number,
    by: ChangedBy,
  ): Promise<WorkspaceAnswer<PurchaseJson>>;
  /** Returns audit entries after the entry with the id `after`, oldest first. */
  changes(
    id: string,
    page: { readonly after: number; readonly limit: number },
  ): Promise<WorkspaceAnswer<readonly ChangeJson[]>>;
  /**
   * Returns the usage report of decisions.md section 10 as JSON. `unavailable` if too many reports are waiting or the
   * report takes too long; `invalid` if the range ends before it starts or there are too many groups.
   */
  usage(id: string, query: UsageQuery, signal?: AbortSignal): Promise<WorkspaceAnswer<Uint8Array>>;
}
