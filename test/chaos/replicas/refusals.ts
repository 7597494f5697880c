/** Finds refusals for which there was credit. */
import type { Call, History, Holding, Interval, LimitedScope } from "./history.ts";

/**
 * A refusal may be based on numbers of this age: a refusal is remembered for a second, and the reservation that caused
 * it may have waited for two seconds.
 */
const oldestMs = 3_000;

/**
 * A refusal is justified if, at some instant, what was charged, what was possibly open, what silent replicas held, and
 * the call itself exceeded a limit. The reserves of replicas do not justify a refusal, because replicas give them back
 * when they are asked.
 */
export function unjustifiedRefusals(history: History): string[] {
  const charged = new Map<string, number>();
  for (const { requestId, milliCu } of history.charges) {
    charged.set(requestId, (charged.get(requestId) ?? 0) + milliCu);
  }
  const found: string[] = [];
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
    const time = { from: call.start - oldestMs, to: call.end };
    const reasons = scopes.map((scope) => {
      const others = callsOf[scope.kind].get(scope.id) ?? [];
      const used = others
        .filter((each) => each !== call)
        .reduce((sum, each) => sum + mayCount(each, time, charged.get(each.id)), 0);
      const silent = heldSilently(history, scope.id, time);
      return { used, silent, limit: scope.limitMilliCu };
    });
    const { maxMilliCu: cost } = call;
    if (reasons.some(({ used, silent, limit }) => used + silent + cost > limit)) continue;
    const numbers = reasons.map(({ used, silent, limit }) => `${used} + ${silent} of ${limit}`);
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

/** A replica that does not answer a recall for this time is not waited for. */
const recallMs = 1_500;

/**
 * Returns the largest amount that replicas held of a scope in this time while they were silent, or so soon after it
 * that a recall may still have been open.
 */
function heldSilently({ silences, holdings }: History, scope: string, time: Interval): number {
  const silent = silences
    .filter(({ from, to }) => from <= time.to && to >= time.from)
    .map(({ replica, from, to }) => ({
      replica,
      from: Math.max(from, time.from),
      to: Math.min(to + recallMs, time.to),
    }));
  if (silent.length === 0) return 0;
  let sum = 0;
  for (const [replica, own] of Map.groupBy(
    holdings.filter((each) => each.scope === scope),
    (each) => each.replica,
  )) {
    const times = silent.filter((each) => [undefined, replica].includes(each.replica));
    sum += Math.max(0, ...times.map((each) => mostHeld(own, each)));
  }
  return sum;
}

function mostHeld(holdings: readonly Holding[], { from, to }: Interval): number {
  let before = 0;
  let most = 0;
  for (const { at, heldMilliCu } of holdings) {
    if (at < from) before = heldMilliCu;
    else if (at <= to) most = Math.max(most, heldMilliCu);
  }
  return Math.max(before, most);
}
