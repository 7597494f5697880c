import type { Call, History, Interval, LimitedScope } from "./history.ts";

/**
 * Maximum age of the numbers on which a refusal is based where gateways share credit: a refusal is remembered for a
 * second, and the reply that caused it may have taken two seconds to arrive.
 */
const oldestMs = 3_000;

/**
 * A refusal is justified if, at some instant, what was charged, what was possibly open, and the call itself exceeded a
 * limit. Reserves do not justify a refusal: a replica asks the others to return them, and answers 503 if one does not
 * reply.
 */
export function unjustifiedRefusals(history: History): string[] {
  const charged = new Map<string, number>();
  for (const { requestId, milliCu } of history.charges) {
    charged.set(requestId, (charged.get(requestId) ?? 0) + milliCu);
  }
  const found: string[] = [];
  const { isAlone = false } = history;
  const refused = history.calls.filter(({ status, milliCu }) => status === 429 && milliCu === 0);
  const scopesOf = new Map<string, LimitedScope[]>();
  for (const scope of history.scopes) scopesOf.set(scope.id, [scope]);
  const callsOf = {
    key: Map.groupBy(history.calls, ({ keyId }) => keyId),
    workspace: Map.groupBy(history.calls, ({ workspaceId }) => workspaceId),
  };
  for (const call of refused) {
    const scopes = [call.keyId, call.workspaceId].flatMap((id) => scopesOf.get(id) ?? []);
    if (scopes.length === 0 || scopes.some(({ isFixed }) => !isFixed)) continue;
    const time = { from: call.start - (isAlone ? 0 : oldestMs), to: call.end };
    const reasons = scopes.map((scope) => {
      const others = callsOf[scope.kind].get(scope.id) ?? [];
      const used = others
        .filter((each) => each !== call && !(isAlone && each.status === 429))
        .reduce((sum, each) => sum + mayCount(each, time, charged.get(each.id)), 0);
      return { used, limit: scope.limitMilliCu };
    });
    const { maxMilliCu: cost } = call;
    if (reasons.some(({ used, limit }) => used + cost > limit)) continue;
    const numbers = reasons.map(({ used, limit }) => `${used} of ${limit}`);
    found.push(`${call.id} was refused ${cost} with ${numbers.join(", ")} in use`);
  }
  return found;
}

/** Returns the most that a call may have charged or reserved in this time. */
function mayCount(call: Call, { from, to }: Interval, charged: number | undefined): number {
  if (call.start > to) return 0;
  if (charged !== undefined) return Math.max(charged, call.end >= from ? call.maxMilliCu : 0);
  return call.end >= from ? call.maxMilliCu : 0;
}
