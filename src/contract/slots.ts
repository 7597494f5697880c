/** Values that plugins of one exchange pass to one another, and facts that they note for observers. */
import type { Phase } from "./phase.ts";
import type { TraceSpan } from "./trace.ts";
import type { UpstreamFailure } from "./upstream-failure.ts";

/**
 * Values that plugins pass to one another, by name. A plugin adds its slot by declaration merging,
 * `declare module "sluice-gateway/plugin" { interface Slots { tenant: Tenant } }`, and lists it in `provides`.
 */
export interface Slots {
  /** Id of the request: 1 to 128 visible ASCII characters. */
  requestId: string;
  /** The span of the exchange. It is not set while nothing is traced, so list it in `wants`, never in `needs`. */
  trace: TraceSpan;
}
export type SlotName = keyof Slots & string;
/** Maps the name of a slot to the phase in which it is set (`provides`) or first read (`needs`, `wants`). */
export type SlotPhases = Partial<Record<SlotName, Phase>>;

/**
 * Facts about an exchange for logs, traces, statistics and `sluice explain`. The plugin that knows a fact adds it with
 * `Exchange.note`. Observers read it from `Exchange.facts` and need no slot for it. A plugin that decides something
 * must use a slot instead, because facts can be missing. Facts are kept for some time after the exchange has ended, so
 * they must be small and must not keep anything else alive. A plugin adds its own facts by declaration merging.
 */
export interface Facts {
  requestId: string;
  traceId: string;
  spanId: string;
  caller: Caller;
  /** Why a store made the gateway refuse the request with 503, in words. Only for the operator. */
  store: string;
  /** Name of the upstream or network in pipeline.yaml that the request was meant for. */
  upstream: string;
  /** Name of the worker, node or address that answered. */
  backend: string;
  /** Why no backend answered, or not completely. */
  upstreamFailure: UpstreamFailure;
}
export type NotedFacts = { [F in keyof Facts]?: Facts[F] | undefined };

/** The caller of an exchange, as the step that has identified it describes it. Missing for unknown callers. */
export interface Caller {
  /** Id of the credential, for example of an API key. */
  readonly id: string;
  /** Name of the group that the credential belongs to, for example a tenant. */
  readonly group: string;
  /** Number of requests that the caller may send at the same time. */
  readonly burst: number;
  /** True if the caller operates the gateway and may see how it handles requests (`X-Sluice-Trace`). */
  readonly isOperator: boolean;
}
