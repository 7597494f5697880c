/** Metering without a journal, with which `sluice check` starts the plugins that use it. */
import type { Metering } from "sluice-gateway/services";

const empty = {
  usedMilliCu: 0,
  limitMilliCu: undefined,
  freesAt: undefined,
  roomAt: undefined,
  emptyAt: undefined,
};

export const meteringWithoutJournal: Metering = {
  reserve: () => ({ kind: "unavailable" }),
  reserveWithoutLimit: () => ({ kind: "unavailable" }),
  outageMs: undefined,
  purchasedLeft: () => 0,
  keyWindows: () => ({ day: empty, month: empty, openMilliCu: 0 }),
  workspaceUsage: () => ({
    periodStart: 0,
    includedMilliCu: 0,
    purchasedMilliCu: 0,
    overageMilliCu: 0,
    openMilliCu: 0,
  }),
  usage: {
    report: () => Promise.resolve({ kind: "unavailable" }),
    spend: () => Promise.resolve({ kind: "unavailable" }),
  },
};
