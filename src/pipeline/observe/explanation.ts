/**
 * Explains one exchange step by step. An explanation contains only names, numbers and codes. Of the headers, the query
 * and the body that a client sent it shows the request id and the names of the methods and tools that were called. A
 * name that looks like anything else is shown as `other`.
 */
import { callFailure } from "../../base/errors.ts";
import { causeOf } from "../../http/upstream/failure-cause.ts";
import type { LimitReached, Outcome, UpstreamFailure } from "../../plugin.ts";
import { coreDepth, type ExchangeRecord } from "./record.ts";

/** `replied`: a step answered without a refusal. `failed`: the step threw, or the surface could not get an answer. */
type StepResult =
  | "passed"
  | "refused"
  | "would refuse"
  | "replied"
  | "failed"
  | "failed, skipped"
  | "skipped"
  | "not reached";

interface StepExplanation {
  readonly step: string;
  readonly did: StepResult;
  readonly reason?: string;
  /** Time of its hooks, including the time they waited. Missing if the exchange was not timed, or no hook has run. */
  readonly ms?: number;
}

/** An exchange as `sluice explain` prints it. Times are in RFC 3339 format, `ms` in milliseconds. */
export interface Explanation {
  /** Name of the gateway that handled it. Missing without a database. */
  readonly replica?: string;
  readonly request_id: string;
  readonly at: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly code?: string;
  /** The reason of the refusal, or the scope of the limit that was reached. */
  readonly reason?: string;
  readonly outcome?: Outcome;
  readonly ms: number;
  readonly key_id?: string;
  readonly workspace_id?: string;
  readonly store?: string;
  /** The limit that refused the request, or the last one that refused one of its calls. */
  readonly limit?: {
    readonly scope: string;
    readonly unit: LimitReached["unit"];
    readonly used: number;
    readonly limit: number;
    /** May be in the past. Missing if the limit has room again, or if it is not known. */
    readonly clears_at?: string;
  };
  readonly upstream?: string;
  readonly upstream_failure?: {
    readonly cause: string;
    readonly backend?: string;
    readonly address?: string;
    readonly status?: number;
    readonly errno?: string;
    readonly timeout_ms?: number;
    readonly type?: string;
    readonly code?: string;
  };
  readonly calls?: {
    /** Distinct names of methods and tools, at most 8. */
    readonly names: readonly string[];
    readonly items: number;
    readonly failed: number;
  };
  /** The steps from the top of the list, and the surface at the end. */
  readonly steps: readonly StepExplanation[];
}

/** The part of an explanation that is not in the record yet while the exchange runs. */
type Result = Pick<ExchangeRecord, "status" | "code" | "ms">;

/** `result`: the response that is being sent, for an exchange that still runs. */
export function explain(record: ExchangeRecord, result: Result = record): Explanation {
  const { facts, outcome, reached } = record;
  const { caller, upstream, upstreamFailure } = facts;
  // The code of a failed call is added to the record when the exchange ends.
  const code = result.code ?? record.calls?.code;
  const reason = record.reason ?? (code === undefined ? undefined : reached?.scope);
  return {
    request_id: facts.requestId ?? "",
    at: iso(record.arrivedAt),
    method: record.method,
    route: record.route.path,
    status: result.status,
    ...(code !== undefined && { code }),
    ...(reason !== undefined && { reason }),
    ...(outcome !== undefined && { outcome }),
    ms: rounded(result.ms),
    ...(caller !== undefined && { key_id: caller.id, workspace_id: caller.group }),
    ...(facts.store !== undefined && { store: facts.store }),
    ...(reached !== undefined && { limit: limitOf(reached) }),
    ...(upstream !== undefined && { upstream }),
    ...(upstreamFailure !== undefined && { upstream_failure: failureJson(upstreamFailure) }),
    ...callsOf(record),
    steps: stepsOf(record, code),
  };
}

function callsOf({ calls }: ExchangeRecord): Pick<Explanation, "calls"> {
  if (calls === undefined) return {};
  const { names, items, failed } = calls;
  return { calls: { names, items, failed } };
}

export function failureJson(
  failure: UpstreamFailure,
): NonNullable<Explanation["upstream_failure"]> {
  const { backend, address, status, errno, timeoutMs, type, code } = failure;
  return {
    cause: causeOf(failure),
    ...(backend !== undefined && { backend }),
    ...(address !== undefined && { address }),
    ...(status !== undefined && { status }),
    ...(errno !== undefined && { errno }),
    ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }),
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
  };
}

function limitOf(reached: LimitReached): NonNullable<Explanation["limit"]> {
  const { scope, unit, used, limit, clearsAt } = reached;
  const at = typeof clearsAt === "function" ? clearsAt() : clearsAt;
  return { scope, unit, used, limit, ...(at !== undefined && { clears_at: iso(at) }) };
}

function stepsOf(record: ExchangeRecord, code: string | undefined): StepExplanation[] {
  const { steps, surface } = record.route;
  const all = steps.map((step, depth) =>
    explainStep(record, depth, { step, did: stepResult(record, depth, code) }),
  );
  if (isRefusedByCore(record) && !record.isSurfaceEntered) {
    all.push({ step: "(core)", did: "refused" });
  }
  const did = surfaceResult(record, code);
  // A step has one reason to refuse. A surface can have many.
  const hasReason = code !== undefined && (did === "refused" || did === "failed");
  const reason = hasReason ? { reason: callFailure(code).message } : {};
  all.push(explainStep(record, steps.length, { step: surface, did, ...reason }));
  return all;
}

function explainStep(
  { times }: ExchangeRecord,
  depth: number,
  explanation: StepExplanation,
): StepExplanation {
  const ms = times?.[depth] ?? -1;
  return ms < 0 ? explanation : { ...explanation, ms: rounded(ms) };
}

function stepResult(record: ExchangeRecord, depth: number, code: string | undefined): StepResult {
  if (record.skipped?.has(depth) === true) return "skipped";
  if (depth >= record.enteredSteps) return "not reached";
  if (depth === record.failedDepth) return "failed";
  if (record.dropped?.has(depth) === true) return "failed, skipped";
  if (depth === record.repliedDepth) return code === undefined ? "replied" : "refused";
  return record.shadowRefusals?.has(depth) === true ? "would refuse" : "passed";
}

function surfaceResult(record: ExchangeRecord, code: string | undefined): StepResult {
  if (!record.isSurfaceEntered) return "not reached";
  if (isRefusedByCore(record)) return "failed";
  if (record.repliedDepth !== undefined || code === undefined) return "replied";
  // If only some calls of a batch have failed, the surface has answered the others.
  const { items, failed } = record.calls ?? { items: 0, failed: 0 };
  if (failed < items) return "replied";
  return items > 0 && callFailure(code).isFailure === true ? "failed" : "refused";
}

function isRefusedByCore({ repliedDepth, failedDepth }: ExchangeRecord): boolean {
  return repliedDepth === coreDepth && failedDepth === undefined;
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
