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
import type { Confirmations } from "./confirmation.ts";

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

  async run(input: unknown): Promise<ToolOutcome> {
    const refused = this.#refusal(input);
    if (refused !== undefined) return this.#failed(refused);
    const aborter = new AbortController();
    const context = this.#context(aborter.signal);
    const unconfirmed = await this.#confirmation(input, context);
    if (unconfirmed !== undefined) return this.#failed(unconfirmed);
    const costMilli = this.#catalogued.costOf(input);
    const part = this.#caller.charge.open(costMilli);
    if ("kind" in part) return this.#failed(creditFailure(part));
    const result = await this.#call(input, context, aborter);
    if (!result.ok) {
      part.release();
      return this.#failed(result);
    }
    const { tool, metrics } = this.#catalogued;
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
  async #confirmation(input: unknown, context: ToolContext): Promise<ToolFailure | undefined> {
    const { tool } = this.#catalogued;
    if (tool.write !== true) return undefined;
    return this.#confirmations.require(tool, input, this.#caller, context);
  }

  async #call(input: unknown, context: ToolContext, aborter: AbortController): Promise<ToolResult> {
    const { tool } = this.#catalogued;
    const { signal } = this.#caller;
    const ended = Promise.withResolvers<ToolResult>();
    const leave = (): void => ended.resolve(abandoned);
    signal.addEventListener("abort", leave, { once: true });
    if (signal.aborted) leave();
    using _timer = this.#parts.clock.after(timeoutMs, () => ended.resolve(timedOut));
    try {
      return await Promise.race([Promise.resolve(tool.call(input, context)), ended.promise]);
    } catch (error) {
      this.#parts.log.error({ err: error, tool: tool.name }, "a tool failed");
      return broken;
    } finally {
      signal.removeEventListener("abort", leave);
      // Whatever the tool still does, nobody waits for it.
      aborter.abort();
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
