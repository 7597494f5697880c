/** Builds the answer about the spend from its sums, in the same way for every store. */
import type { Spend, SpendAmounts, SpendGroup, SpendQuery } from "sluice-gateway/services";
import { number, type Row } from "sluice-gateway/store";

export type NamedSum = SpendGroup;

/** Reads the sums of a row. Both stores give their columns the same names. */
export function amountsOf(row: Row): SpendAmounts {
  const includedMilliCu = number(row, "included");
  const purchasedMilliCu = number(row, "purchased");
  const overageMilliCu = number(row, "overage");
  return {
    calls: number(row, "calls"),
    usedMilliCu: includedMilliCu + purchasedMilliCu + overageMilliCu,
    includedMilliCu,
    purchasedMilliCu,
    overageMilliCu,
    inputTokens: number(row, "input_tokens"),
    outputTokens: number(row, "output_tokens"),
  };
}

const none: SpendAmounts = {
  calls: 0,
  usedMilliCu: 0,
  includedMilliCu: 0,
  purchasedMilliCu: 0,
  overageMilliCu: 0,
  inputTokens: 0,
  outputTokens: 0,
};

/** `groups`: all groups in descending order. `days`: empty if no day has a charge. */
export function spendOf(
  { from, to, limit }: SpendQuery,
  groups: readonly NamedSum[],
  days: readonly number[],
  series: readonly (readonly number[])[],
): Spend {
  const total: Record<keyof SpendAmounts, number> = { ...none };
  for (const group of groups) {
    total.calls += group.calls;
    total.usedMilliCu += group.usedMilliCu;
    total.includedMilliCu += group.includedMilliCu;
    total.purchasedMilliCu += group.purchasedMilliCu;
    total.overageMilliCu += group.overageMilliCu;
    total.inputTokens += group.inputTokens;
    total.outputTokens += group.outputTokens;
  }
  return {
    total,
    groups: groups.slice(0, limit),
    groupCount: groups.length,
    days: days.length > 0 ? days : Array<number>((to - from) / 86_400_000).fill(0),
    series,
  };
}
