/**
 * Checks the history of a run. The checks do not depend on how the charges were made: this folder imports nothing of the
 * product. Every rule is a promise of docs/replicas.md.
 */
import type {
  Call,
  Charge,
  History,
  Interval,
  LimitedScope,
  OnceOnly,
  RateLimit,
} from "./history.ts";

export interface Violations {
  /** Complete answers without a charge. */
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** Charges whose amount differs from the one in the answer, and charges of refused calls or of unknown calls. */
  readonly wrong: readonly string[];
  /** Work for calls that were refused, and answers and charges without work. */
  readonly work: readonly string[];
  readonly overshoot: readonly string[];
  readonly unjustified: readonly string[];
  readonly unavailable: readonly string[];
  readonly repeated: readonly string[];
  readonly revoked: readonly string[];
  readonly rate: readonly string[];
  readonly sums: readonly string[];
}

export function check(history: History): Violations {
  const byRequest = Map.groupBy(history.charges, ({ requestId }) => requestId);
  return {
    ...checkCharges(history.calls, byRequest),
    work: checkWork(history, byRequest),
    overshoot: checkLimits(history),
    unjustified: unjustifiedRefusals(history),
    unavailable: checkUnavailable(history),
    repeated: history.onceOnly.flatMap(checkOnce),
    revoked: checkRevocations(history),
    rate: history.rates.flatMap((rate) => checkRate(rate, history.calls)),
    sums: checkSums(history),
  };
}

export function isAnswered({ status, isWhole }: Call): boolean {
  return isWhole && status >= 200 && status < 300;
}

/**
 * Returns true for a call whose outcome is unknown: its connection broke, or the gateway answered 5xx because it did
 * not know the outcome. A 503 means that nothing was charged.
 */
function isUnknown({ status, isWhole }: Call): boolean {
  return !isWhole || (status >= 500 && status !== 503);
}

function checkCharges(
  calls: readonly Call[],
  byRequest: ReadonlyMap<string, readonly Charge[]>,
): Pick<Violations, "lost" | "doubled" | "wrong"> {
  const lost: string[] = [];
  const doubled: string[] = [];
  const wrong: string[] = [];
  const known = new Set<string>();
  for (const call of calls) {
    const { id, status, milliCu, lines = 1 } = call;
    known.add(id);
    const charges = byRequest.get(id) ?? [];
    const charged = sum(charges);
    if (charges.length > lines) doubled.push(`${id} has ${charges.length} charges, not ${lines}`);
    if (charges.length === 0) {
      if (isAnswered(call) && milliCu > 0) lost.push(`${id} was answered and not charged`);
      continue;
    }
    if (charges.length < lines) lost.push(`${id} has ${charges.length} charges, not ${lines}`);
    // Doubled charges have a wrong sum, too, which is not reported again.
    const each = charges.length > lines ? sum(charges.slice(0, lines)) : charged;
    if (isAnswered(call) && each !== milliCu) {
      wrong.push(`${id} was charged ${each}, but its answer states ${milliCu}`);
    } else if (!isAnswered(call) && !isUnknown(call)) {
      wrong.push(`${id} was answered ${status} and charged`);
    } else if (each > call.maxMilliCu) {
      wrong.push(`${id} was charged ${each}, more than ${call.maxMilliCu}`);
    }
  }
  for (const id of byRequest.keys())
    if (!known.has(id)) wrong.push(`${id} was charged, but never called`);
  return { lost, doubled, wrong };
}

/**
 * A refused call must not reach a worker, and nothing is answered or charged without work. An exception: a gateway cuts
 * its connection to the worker when the client leaves, and a worker that is busy has then not read what was sent.
 */
function checkWork(
  { calls, worked }: History,
  byRequest: ReadonlyMap<string, readonly Charge[]>,
): string[] {
  const done = new Set(worked);
  return calls
    .filter(({ isLogged }) => isLogged === true)
    .flatMap((call) => {
      const { id, status } = call;
      if (done.has(id)) {
        const isRefused = call.isWhole && [401, 403, 429].includes(status);
        return isRefused ? [`${id} was answered ${status}, and a worker has received it`] : [];
      }
      if (byRequest.has(id) && call.hasLeft !== true) {
        const ms = Math.round(call.end - call.start);
        const answer = `status ${status}, whole: ${call.isWhole}, after ${ms} ms`;
        return [`${id} was charged (${answer}), and no worker has received it`];
      }
      if (!isAnswered(call) || call.milliCu === 0) return [];
      return [`${id} was answered, and no worker has received it`];
    });
}

export function cutCalls({ calls, charges }: History): number {
  const charged = new Set(charges.map(({ requestId }) => requestId));
  return calls.filter((call) => !isAnswered(call) && charged.has(call.id)).length;
}

function checkLimits({ scopes, calls, charges, exceeded }: History): string[] {
  const found = exceeded.map(
    ({ scope, chargedMilliCu, heldMilliCu, limitMilliCu }) =>
      `${scope}: ${chargedMilliCu} charged and ${heldMilliCu} held exceed ${limitMilliCu}`,
  );
  for (const scope of scopes) {
    const { id, limitMilliCu } = scope;
    const charged = sum(charges.filter((each) => isIn(scope, each)));
    if (charged > limitMilliCu) found.push(`${id}: ${charged} charged exceed ${limitMilliCu}`);
    const answered = sum(calls.filter((call) => isIn(scope, call) && isAnswered(call)));
    if (answered > limitMilliCu) found.push(`${id}: ${answered} answered exceed ${limitMilliCu}`);
  }
  return found;
}

export function overshootOf({ scopes, charges, exceeded }: History): number {
  const atEnd = scopes.map(
    (scope) => sum(charges.filter((each) => isIn(scope, each))) - scope.limitMilliCu,
  );
  const atCommits = exceeded.map(
    ({ chargedMilliCu, heldMilliCu, limitMilliCu }) => chargedMilliCu + heldMilliCu - limitMilliCu,
  );
  return [...atEnd, ...atCommits].reduce((most, each) => Math.max(most, each), 0);
}

function isIn(
  { kind, id }: LimitedScope,
  { keyId, workspaceId }: Pick<Charge, "keyId" | "workspaceId">,
): boolean {
  return id === (kind === "key" ? keyId : workspaceId);
}

function checkOnce({ id, effects, bodies }: OnceOnly): string[] {
  const found: string[] = [];
  if (effects > 1) found.push(`${id} took effect ${effects} times`);
  if (effects === 0 && bodies.length > 0)
    found.push(`${id} succeeded without its effect: ${bodies[0]}`);
  if (new Set(bodies).size > 1)
    found.push(`${id} has different answers: ${[...new Set(bodies)].join("; ")}`);
  return found;
}

/** Checks the order of events, not the time between them. */
function checkRevocations({ revocations, calls }: History): string[] {
  return revocations.flatMap(({ keyId, confirmedAt, confirmedBy }) =>
    calls
      .filter((call) => call.keyId === keyId && isAnswered(call))
      .filter(({ replica, start }) => start > confirmedAt && confirmedBy.includes(replica))
      .map(
        ({ id, replica }) =>
          `${id} was served by ${replica}, which had confirmed that it refuses the key`,
      ),
  );
}

/**
 * Between the start of any admitted call and the end of any later one, no more calls may be admitted than the burst and
 * the tokens that are added in that time. Every violation found is real, because each call was admitted between its
 * start and its end.
 */
function checkRate(rate: RateLimit, calls: readonly Call[]): string[] {
  const { keyId, perSecond, burst, disruptions } = rate;
  const admitted = calls.filter((call) => call.keyId === keyId && isAnswered(call));
  const byEnd = admitted.toSorted((left, right) => left.end - right.end);
  for (const { start } of admitted) {
    let count = 0;
    for (const call of byEnd) {
      if (call.start < start) continue;
      count++;
      const seconds = (call.end - start) / 1000;
      let allowed = burst + perSecond * seconds;
      if (count <= allowed) continue;
      for (const { from, to, extra } of disruptions) {
        if (from <= call.end && to >= start) allowed += extra;
      }
      if (count <= allowed) continue;
      return [`${keyId}: ${count} admitted in ${seconds} s, at most ${allowed} were allowed`];
    }
  }
  return [];
}

function checkSums({ sums, charges }: History): string[] {
  const totals = new Map<string, number>();
  for (const { keyId, workspaceId, milliCu } of charges) {
    for (const id of [keyId, workspaceId]) totals.set(id, (totals.get(id) ?? 0) + milliCu);
  }
  return sums
    .filter(({ id, milliCu }) => milliCu !== (totals.get(id) ?? 0))
    .map(({ of, id, milliCu }) => `${of} of ${id}: ${milliCu} instead of ${totals.get(id) ?? 0}`);
}

function sum(amounts: readonly { readonly milliCu: number }[]): number {
  return amounts.reduce((total, { milliCu }) => total + milliCu, 0);
}

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
function unjustifiedRefusals(history: History): string[] {
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
        .reduce((total, each) => total + mayCount(each, time, charged.get(each.id)), 0);
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
function checkUnavailable(history: History): string[] {
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
