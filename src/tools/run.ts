/** One call of one tool, from its input to its outcome. */
import type { Reservation } from "../services.ts";
import {
  toolFailure,
  type ToolCaller,
  type ToolContext,
  type ToolFailure,
  type ToolOutcome,
  type ToolResult,
  type Tools,
} from "../tool.ts";
import type { CataloguedTool, CatalogueParts } from "./catalogue.ts";
import { takeToken, type Confirmations } from "./confirmation.ts";

/** decisions.md section 6. */
const timeoutMs = 30_000;

const timedOut = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the tool did not answer in time");
const abandoned = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the caller has left");
const broken = toolFailure("GATEWAY_INTERNAL_ERROR", "internal error");

export class ToolRun {
  readonly #catalogued: CataloguedTool;
  readonly #caller: ToolCaller;
  readonly #tools: Tools;
  readonly #confirmations: Confirmations;
  readonly #parts: CatalogueParts;
  readonly #startedAt: number;

  constructor(
    catalogued: CataloguedTool,
    caller: ToolCaller,
    tools: Tools,
    confirmations: Confirmations,
    parts: CatalogueParts,
  ) {
    this.#catalogued = catalogued;
    this.#caller = caller;
    this.#tools = tools;
    this.#confirmations = confirmations;
    this.#parts = parts;
    this.#startedAt = parts.clock.monotonic();
  }

  async run(given: unknown): Promise<ToolOutcome> {
    const refused = this.#refusal(given);
    if (refused !== undefined) return this.#failed(refused);
    const aborter = new AbortController();
    const context = this.#context(aborter.signal);
    try {
      if (this.#catalogued.tool.write !== true) return await this.#perform(given, context);
      const { input, token } = takeToken(given);
      const unconfirmed = await this.#confirmation(input, token, context);
      return unconfirmed === undefined
        ? await this.#perform(input, context)
        : this.#failed(unconfirmed);
    } finally {
      // Whatever the tool still does, nobody waits for it.
      aborter.abort();
    }
  }

  /** Reserves, calls, settles. */
  async #perform(input: unknown, context: ToolContext): Promise<ToolOutcome> {
    const costMilli = this.#catalogued.costOf(input);
    const part = this.#caller.charge.open(costMilli);
    if ("kind" in part) return this.#failed(creditFailure(part));
    const { tool, metrics } = this.#catalogued;
    const result = await this.#inTime<ToolResult>(() => tool.call(input, context));
    if (!result.ok) {
      part.release();
      return this.#failed(result);
    }
    part.settle([{ method: tool.name, costMilli }]);
    const latencyMs = this.#latency();
    metrics.succeeded.add(1);
    metrics.seconds.observe(latencyMs / 1000);
    return {
      ok: true,
      tool: tool.name,
      json: "json" in result ? result.json : JSON.stringify(result.value ?? null),
      usedCUMilli: costMilli,
      latencyMs,
      usage: result.usage,
      links: result.links,
    };
  }

  /** What speaks against the call before anything is done. */
  #refusal(input: unknown): ToolFailure | undefined {
    const { tool, check } = this.#catalogued;
    const { capability } = tool;
    if (capability !== undefined && !this.#caller.principal.key.capabilities.has(capability)) {
      return toolFailure("GATEWAY_PERMISSION_DENIED", `the key lacks the capability ${capability}`);
    }
    const early = tool.before?.(input);
    if (early !== undefined) return early;
    const violations = check(input);
    if (violations.length === 0) return undefined;
    const [first] = violations;
    const where = first === undefined || first.path === "" ? "the input" : first.path;
    return toolFailure(
      "GATEWAY_SCHEMA_VIOLATION",
      `${where}: ${first?.reason ?? "does not match the schema"}`,
      { violations },
    );
  }

  /** A write tool runs on its second call, with the token that the first one gave. */
  #confirmation(
    input: object,
    token: string | undefined,
    context: ToolContext,
  ): Promise<ToolFailure | undefined> {
    const { tool } = this.#catalogued;
    // What the transport carries beside the input is the more deliberate of the two.
    const shown = this.#caller.confirmationToken ?? token;
    return this.#inTime<ToolFailure | undefined>(() =>
      this.#confirmations.require(tool, input, shown, context),
    );
  }

  /** Waits for the tool's own code until it ends, the time is up or the caller leaves; a throw of it is a bug. */
  async #inTime<T>(work: () => T | Promise<T>): Promise<T | ToolFailure> {
    const { signal } = this.#caller;
    const ended = Promise.withResolvers<ToolFailure>();
    const leave = (): void => ended.resolve(abandoned);
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    using _timer = this.#parts.clock.after(timeoutMs, () => ended.resolve(timedOut));
    try {
      return await Promise.race([work(), ended.promise]);
    } catch (error) {
      const tool = this.#catalogued.tool.name;
      this.#parts.log.error({ err: error, tool }, "a tool failed");
      return broken;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #context(signal: AbortSignal): ToolContext {
    const caller = this.#caller;
    return {
      principal: caller.principal,
      requestId: caller.requestId,
      signal,
      progress: (done, total, message) => caller.progress?.(done, total, message),
      run: (tool, input) =>
        this.#tools.call(tool, input, { ...caller, signal, confirmationToken: undefined }),
    };
  }

  #failed(failure: ToolFailure): ToolOutcome {
    const { tool, metrics } = this.#catalogued;
    metrics.failed(failure.code);
    return { ...failure, tool: tool.name, latencyMs: this.#latency() };
  }

  /** Whole milliseconds since the call began. */
  #latency(): number {
    return Math.round(this.#parts.clock.monotonic() - this.#startedAt);
  }
}

type NoCredit = Exclude<
  ReturnType<ToolCaller["charge"]["open"]>,
  { settle: unknown } | Reservation
>;

function creditFailure(refusal: NoCredit): ToolFailure {
  if (refusal.kind === "unavailable") {
    return toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "temporarily unavailable");
  }
  const { window, usedCuMilli, limitCuMilli } = refusal;
  return toolFailure("GATEWAY_CU_LIMIT_EXCEEDED", "credit limit exceeded", {
    ...(window !== undefined && { window }),
    used_cu_milli: usedCuMilli,
    limit_cu_milli: limitCuMilli,
  });
}
