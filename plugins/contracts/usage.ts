/**
 * `usage` of the service `metering`: reports of the settled charges. Implemented in plugins/billing/metering, on the
 * journal, and in plugins/billing/leases, on PostgreSQL.
 */
import type { UsageMember } from "./workspaces.ts";

export interface UsageSeriesQuery {
  /** All workspaces if undefined. */
  readonly workspaceId: string | undefined;
  /** Start of the range (inclusive) in milliseconds since 1970, a multiple of `stepMs`. */
  readonly from: number;
  readonly stepMs: number;
  readonly steps: number;
}

export interface Series {
  /** Undefined for the sum of all series that are not listed. */
  readonly name: string | undefined;
  readonly calls: number;
  readonly usedMilliCu: number;
  /** Milli-CU of each step. */
  readonly values: readonly number[];
}

/** Each list contains the largest series in descending order, then the sum of the others. */
export interface UsageSeries {
  readonly calls: number;
  readonly usedMilliCu: number;
  readonly surfaces: readonly Series[];
  readonly workspaces: readonly Series[];
  readonly keys: readonly Series[];
}

/** The charges of a workspace in a range of time. */
export interface UsageRange {
  readonly workspaceId: string;
  /** Milliseconds since 1970, finite. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  readonly groupBy: readonly UsageMember[];
}

/** `json`: the report as in docs/workspaces.md, in UTF-8. `unavailable`: it could not be made in time. */
export type UsageReport =
  | { readonly kind: "done"; readonly json: Uint8Array }
  | { readonly kind: "tooManyGroups"; readonly maxGroups: number }
  | { readonly kind: "unavailable" };

export interface UsageReports {
  /** Adds up the charges of a workspace by group. The result of an aborted report is ignored. Never rejects. */
  report(range: UsageRange, signal?: AbortSignal): Promise<UsageReport>;
  /**
   * Adds up the charges over time. Resolves to undefined if too many reports are waiting or the report takes too long.
   * Never rejects.
   */
  series(query: UsageSeriesQuery): Promise<UsageSeries | undefined>;
}
