/** `usage` of the service `metering`: reports of the settled charges. */
import type { UsageMember } from "./workspaces.ts";

export interface UsageRange {
  readonly workspaceId: string;
  /** Milliseconds since 1970, finite. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  readonly groupBy: readonly UsageMember[];
}

/**
 * `tool`: the method of a charge of a tool. `tag`: the name that the agent gave itself (`X-Agent-Name`). `route`: the
 * path of the route as written in pipeline.yaml.
 */
export const spendMembers = [
  "workspace",
  "key",
  "model",
  "tool",
  "method",
  "route",
  "tag",
] as const;
export type SpendMember = (typeof spendMembers)[number];

export interface SpendQuery {
  /** All workspaces if undefined. */
  readonly workspaceId: string | undefined;
  /** Midnights in UTC, in milliseconds since 1970. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  readonly by: SpendMember;
  /** Maximum number of groups. */
  readonly limit: number;
  /** True to request steps of an hour. They are used if the range has at most two days. */
  readonly wantsHours?: boolean;
}

/** The sum of charges. `usedMilliCu` is the sum of the three draws. */
export interface SpendAmounts {
  readonly calls: number;
  readonly usedMilliCu: number;
  readonly includedMilliCu: number;
  readonly purchasedMilliCu: number;
  readonly overageMilliCu: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Parts of the two counts above. 0 if no classes of tokens have prices. */
  readonly cachedTokens: number;
  readonly reasoningTokens: number;
}

export interface SpendGroup extends SpendAmounts {
  /** Undefined for the charges without a value, such as those without a model. */
  readonly name: string | undefined;
}

export interface Spend {
  readonly total: SpendAmounts;
  /** The largest groups in descending order. */
  readonly groups: readonly SpendGroup[];
  readonly groupCount: number;
  /** A day, or an hour if the query requested hours and the range is short enough. */
  readonly stepMs: number;
  /** Milli-CU of each step of the range. */
  readonly steps: readonly number[];
  /** Milli-CU of the groups in each step, in the order of `groups`. */
  readonly series: readonly (readonly number[])[];
}

/** `unavailable`: retry later. */
export type SpendAnswer =
  | { readonly kind: "done"; readonly spend: Spend }
  | { readonly kind: "unavailable" };

/** `json`: the report of docs/workspaces.md, in UTF-8. `unavailable`: it could not be computed in time. */
export type UsageReport =
  | { readonly kind: "done"; readonly json: Uint8Array }
  | { readonly kind: "tooManyGroups"; readonly maxGroups: number }
  | { readonly kind: "unavailable" };

export interface UsageReports {
  /** The result of an aborted report is ignored. Never rejects. */
  report(range: UsageRange, signal?: AbortSignal): Promise<UsageReport>;
  /** Adds up the charges of whole days, including every charge that was settled before the call. Never rejects. */
  spend(query: SpendQuery): Promise<SpendAnswer>;
}
