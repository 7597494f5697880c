/** Metering without a journal, with which `sluice check` starts the plugins that use it. */
import type { Metering } from "sluice-gateway/services";

const empty = {
  used: 0,
  limit: undefined,
  freesAt: undefined,
  roomAt: undefined,
  emptyAt: undefined,
};

export const meteringWithoutJournal: Metering = {
  reserve: () => ({ kind: "unavailable" }),
  clearsAt: () => undefined,
  purchasedLeft: () => 0,
  keyWindows: () => ({ day: empty, month: empty, open: 0 }),
  workspaceUsage: () => ({ periodStart: 0, included: 0, purchased: 0, overage: 0, open: 0 }),
  usage: { series: () => Promise.resolve(undefined) },
};
