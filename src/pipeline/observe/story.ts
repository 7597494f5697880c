/**
 * What became of one exchange, step by step: who let it pass, who refused it and at which limit, how long each took.
 * Names, numbers and codes only. Of what a client sent in a header, a query or a body it shows the request id and the
 * names of methods, tools and models that it called; a name that looks like anything else is shown as `other`.
 */
import { isFailure, reasonOf } from "../../called.ts";
import type { ApiKey, LimitReached, Outcome } from "../../plugin.ts";
import { CallRecord } from "../run/call-record.ts";
import type { RouteShape } from "../load/compile.ts";
import type { LiveExchange } from "../run/exchange.ts";

/** `replied`: a step's own answer that is not a refusal. `failed`: the step threw, or the surface could not get an answer. */
type Did = "passed" | "refused" | "would refuse" | "replied" | "failed" | "skipped" | "not reached";

interface StepTold {
  readonly step: string;
  readonly did: Did;
  /** Why the surface refused or failed, in words. */
  readonly reason?: string;
  /** Of its hooks, waiting included; absent: this exchange was not timed, or the step has taken none. */
  readonly ms?: number;
}

/** An exchange as `sluice explain` prints it. Times are RFC 3339, `ms` milliseconds. */
export interface Told {
  readonly request_id: string;
  readonly at: string;
  readonly method: string;
  /** As pipeline.yaml writes it. */
  readonly route: string;
  readonly status: number;
  readonly code?: string;
  /** Absent: it is still being answered. */
  readonly outcome?: Outcome;
  readonly ms: number;
  readonly key_id?: string;
  readonly workspace_id?: string;
  /** What a refusal is about, or that of the last call that was refused in a request of several. */
  readonly limit?: {
    readonly scope: string;
    readonly unit: LimitReached["unit"];
    readonly used: number;
    readonly limit: number;
    /** It may have passed. Absent: it has cleared, or it is not known. */
    readonly clears_at?: string;
  };
  /** The node methods, tools and models that it called; absent if there were none. */
  readonly calls?: {
    /** At most 8 distinct names. */
    readonly names: readonly string[];
    readonly items: number;
    readonly failed: number;
  };
  /** From the top of the list to the surface. */
  readonly steps: readonly StepTold[];
}

/** What is kept of an exchange. Written over and over: an ended exchange costs no new object. */
export class Story {
  requestId = "";
  #at = 0;
  #ms = 0;
  #method = "";
  #shape: RouteShape | undefined = undefined;
  #status = 0;
  #code: string | undefined = undefined;
  #outcome: Outcome | undefined = undefined;
  #entered = 0;
  /** Who answered in place of the surface: a step, or (Infinity) the core; -1: the surface did. */
  #repliedDepth = -1;
  #brokenDepth: number | undefined = undefined;
  #surfaceAsked = false;
  #skipped: ReadonlySet<number> | undefined = undefined;
  #shadowed: ReadonlySet<number> | undefined = undefined;
  #times: Float64Array | undefined = undefined;
  #reached: LimitReached | undefined = undefined;
  #key: ApiKey | undefined = undefined;
  readonly #calls = new CallRecord();

  /** `status` and `code` of what is being sent or was; `outcome` undefined while it is. */
  write(
    x: LiveExchange,
    { status, code }: { readonly status: number; readonly code: string | undefined },
    outcome: Outcome | undefined,
    ms: number,
  ): this {
    const principal = x.peek("principal");
    this.requestId = x.peek("requestId") ?? "";
    this.#at = x.arrivedAt;
    this.#ms = ms;
    this.#method = x.request.method;
    this.#shape = x.compiled.shape;
    this.#status = status;
    // The head of an answer is sent before its calls are summed up into the code of the exchange.
    this.#code = code ?? x.calls?.code;
    this.#outcome = outcome;
    this.#entered = x.entered;
    this.#repliedDepth = x.repliedByStep ? x.repliedDepth : -1;
    this.#brokenDepth = x.brokenDepth;
    this.#surfaceAsked = x.surfaceAsked;
    this.#skipped = x.skipped;
    this.#shadowed = x.shadowed;
    this.#times = x.times;
    this.#reached = x.reached;
    this.#key = principal?.kind === "key" ? principal.key : undefined;
    this.#calls.copy(x.calls);
    return this;
  }

  tell(): Told {
    const code = this.#code;
    const key = this.#key;
    return {
      request_id: this.requestId,
      at: new Date(this.#at).toISOString(),
      method: this.#method,
      route: this.#shape?.path ?? "",
      status: this.#status,
      ...(code !== undefined && { code }),
      ...(this.#outcome !== undefined && { outcome: this.#outcome }),
      ms: rounded(this.#ms),
      ...(key !== undefined && { key_id: key.id, workspace_id: key.workspaceId }),
      ...(this.#reached !== undefined && { limit: limitTold(this.#reached) }),
      ...(this.#calls.items > 0 && { calls: this.#callsTold() }),
      steps: this.#steps(),
    };
  }

  #callsTold(): NonNullable<Told["calls"]> {
    const { names, items, failed } = this.#calls;
    return { names, items, failed };
  }

  #steps(): StepTold[] {
    const { steps = [], surface = "" } = this.#shape ?? {};
    const all = steps.map((step, depth) => this.#step(step, this.#did(depth), depth));
    const isNobodys = this.#repliedDepth === Infinity && this.#brokenDepth === undefined;
    if (isNobodys && !this.#surfaceAsked) all.push({ step: "(core)", did: "refused" });
    all.push(this.#step(surface, this.#surfaceDid(), steps.length));
    return all;
  }

  #step(step: string, did: Did, depth: number): StepTold {
    const ms = this.#times?.[depth] ?? -1;
    return { step, did, ...this.#reason(did, depth), ...(ms >= 0 && { ms: rounded(ms) }) };
  }

  /** Steps refuse for one reason each; a surface may refuse for many. */
  #reason(did: Did, depth: number): Pick<StepTold, "reason"> {
    const isSurface = depth === this.#shape?.steps.length;
    const explains = isSurface && (did === "refused" || did === "failed");
    return explains && this.#code !== undefined ? { reason: reasonOf(this.#code) } : {};
  }

  #did(depth: number): Did {
    if (this.#skipped?.has(depth) === true) return "skipped";
    if (depth >= this.#entered) return "not reached";
    if (depth === this.#brokenDepth) return "failed";
    if (depth === this.#repliedDepth) return this.#code === undefined ? "replied" : "refused";
    return this.#shadowed?.has(depth) === true ? "would refuse" : "passed";
  }

  #surfaceDid(): Did {
    if (!this.#surfaceAsked) return "not reached";
    if (this.#repliedDepth === Infinity && this.#brokenDepth === undefined) return "failed";
    if (this.#repliedDepth !== -1 || this.#code === undefined) return "replied";
    // Some calls of a batch may have failed: the surface has answered the others.
    const { items, failed } = this.#calls;
    if (failed < items) return "replied";
    return items > 0 && isFailure(this.#code) ? "failed" : "refused";
  }
}

function limitTold({
  scope,
  unit,
  used,
  limit,
  clearsAt,
}: LimitReached): NonNullable<Told["limit"]> {
  const at = typeof clearsAt === "function" ? clearsAt() : clearsAt;
  return { scope, unit, used, limit, ...(at !== undefined && { clears_at: iso(at) }) };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** To a microsecond. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
