/**
 * `usage` of the service `metering`: reports of the charges in the journal. Implemented in plugins/billing/metering.
 */

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

export interface UsageReports {
  /**
   * Adds up the charges over time in a thread. Resolves to undefined if too many reports are waiting or the report
   * takes too long. Never rejects.
   */
  series(query: UsageSeriesQuery): Promise<UsageSeries | undefined>;
}
