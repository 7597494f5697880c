/** Builds the answer about the spend from its sums, in the same way for every store. */
import type { Spend, SpendAmounts, SpendGroup, SpendQuery } from "sluice-gateway/services";
import { number, type Row } from "sluice-gateway/store";
import { stepMsOf, type SpendSteps } from "./steps.ts";

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

/** `groups`: all groups in descending order. */
export function spendOf(
  { limit }: Pick<SpendQuery, "limit">,
  groups: readonly NamedSum[],
  steps: SpendSteps,
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
    ...steps,
  };
}

/** The answer if the store has no charge of the workspace. */
export function noSpend(query: SpendQuery): Spend {
  const stepMs = stepMsOf(query);
  const steps = Array<number>((query.to - query.from) / stepMs).fill(0);
  return spendOf(query, [], { stepMs, steps, series: [] });
}
