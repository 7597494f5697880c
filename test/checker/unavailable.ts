import type { Call, History } from "./history.ts";

/**
 * A fault is in progress until this time after its repair: the affected server starts or connects again, and requests
 * wait up to two seconds for credit that it held.
 */
const recoveryMs = 5_000;
/**
 * Maximum share of 503 answers. Some are correct, because the credit of a killed gateway is free after 10 seconds only.
 * Two runs had 0.3 % and 0 % where credit is limited, and none elsewhere. If every 429 had been a 503, it would have been
 * more than 15 % where credit is limited.
 */
const maxShare = 0.1;

export function callsWithoutFault({ calls, faults }: History): readonly Call[] {
  return calls.filter(
    ({ start, end }) => !faults.some(({ from, to }) => start <= to + recoveryMs && end >= from),
  );
}

export function countUnavailable(calls: readonly Call[]): number {
  return calls.filter(({ status }) => status === 503).length;
}

/** Calls that need limited credit are counted separately, because most 503 answers are about credit. */
export function checkUnavailable(history: History): string[] {
  const limited = new Set(history.scopes.map(({ id }) => id));
  const isLimited = ({ keyId, workspaceId }: Call): boolean =>
    limited.has(keyId) || limited.has(workspaceId);
  const calm = callsWithoutFault(history);
  const groups = [
    ["with limited credit", calm.filter((call) => isLimited(call))],
    ["with unlimited credit", calm.filter((call) => !isLimited(call))],
  ] as const;
  return groups.flatMap(([which, calls]) => {
    const unavailable = countUnavailable(calls);
    if (unavailable <= maxShare * calls.length) return [];
    return [`without a fault, ${unavailable} of ${calls.length} calls ${which} were answered 503`];
  });
}
