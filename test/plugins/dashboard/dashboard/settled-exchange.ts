import type { SettledExchange } from "../../../../src/plugin.ts";

export const noon = Date.UTC(2026, 10, 21, 12);

export function settledExchange(more: Partial<SettledExchange> = {}): SettledExchange {
  return {
    arrivedAt: noon,
    ms: 10,
    method: "GET",
    route: { path: "/a" },
    status: 200,
    code: undefined,
    facts: { requestId: undefined, caller: undefined },
    calls: undefined,
    ...more,
  };
}
