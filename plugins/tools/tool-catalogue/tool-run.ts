/** One call of one tool, from its input to its outcome. */
import { gatewayErrors } from "../../../src/errors.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { ChargePart } from "../../../src/services/meter.ts";
import type { ChildSpan } from "../../../src/services/trace.ts";
import {
  toolFailure,
  type ModelUsage,
  type ToolCaller,
  type ToolFailure,
  type ToolOutcome,
  type ToolResult,
} from "../../../src/tool.ts";
import type { CataloguedTool, Nesting, NestingTools } from "./catalogue.ts";
import { CallContext } from "./call-context.ts";
import { confirmationExpired, takeToken, type Confirmations } from "./confirmation.ts";

export interface RunParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly tools: NestingTools;
  readonly confirmations: Confirmations;
}

/** decisions.md section 6. */
const timeoutMs = 30_000;

/**
 * The longest result, characters: a node's largest block, decoded, is about 30 million. Each level of nesting has half
 * of the one around it, so that a tool can gather the results of others; 2^29 is as much as one string can hold.
 */
const maxResultChars = 64 * 1024 * 1024;

const timedOut = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the tool did not answer in time");
const abandoned = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the caller has left");
const tooLarge = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the result is too large");
const broken = toolFailure("GATEWAY_INTERNAL_ERROR", "internal error");

type Confirmed = { readonly ok: true; claim(): boolean };
const unasked: Confirmed = { ok: true, claim: () => true };

export class ToolRun {
  readonly #catalogued: CataloguedTool;
  readonly #caller: ToolCaller;
  readonly #nesting: Nesting;
  readonly #parts: RunParts;
  readonly #startedAt: number;
  readonly #span: ChildSpan | undefined;
  readonly #context: CallContext;

  constructor(catalogued: CataloguedTool, caller: ToolCaller, nesting: Nesting, parts: RunParts) {
    this.#catalogued = catalogued;
    this.#caller = caller;
    this.#nesting = nesting;
    this.#parts = parts;
    this.#startedAt = parts.clock.monotonic();
    const { name } = catalogued.tool;
    this.#span = caller.trace?.child(`execute_tool ${name}`, "internal", {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
    });
    this.#context = new CallContext(caller, nesting.depth, parts.tools, this.#span);
  }

  /**
   * Never throws or rejects: whatever does on the way is a bug, told as GATEWAY_INTERNAL_ERROR. A promise only where
   * the tool gives one, or writes.
   */
  run(given: unknown): ToolOutcome | Promise<ToolOutcome> {
    let outcome: ToolOutcome | Promise<ToolOutcome>;
    try {
      outcome = this.#outcome(given);
    } catch (error) {
      outcome = this.#threw(error);
    }
    if (outcome instanceof Promise) return this.#later(outcome);
    this.#context.end();
    return outcome;
  }

  async #later(outcome: Promise<ToolOutcome>): Promise<ToolOutcome> {
    try {
      return await outcome;
    } catch (error) {
      return this.#threw(error);
    } finally {
      this.#context.end();
    }
  }

  #threw(error: unknown): ToolOutcome {
    const { name } = this.#catalogued.tool;
    const { requestId } = this.#caller;
    this.#parts.log.error({ err: error, tool: name, requestId }, "a tool failed");
    return this.#failed(broken);
  }

  #outcome(given: unknown): ToolOutcome | Promise<ToolOutcome> {
    const refused = this.#refusal(given);
    if (refused !== undefined) return this.#failed(refused);
    const writes = this.#catalogued.tool.write === true;
    return writes ? this.#write(given) : this.#perform(given, unasked);
  }

  async #write(given: unknown): Promise<ToolOutcome> {
    const { input, token } = takeToken(given);
    const confirmed = await this.#confirm(input, token);
    return confirmed.ok ? this.#perform(input, confirmed) : this.#failed(confirmed);
  }

  /** Returns what speaks against the call before anything is done. */
  #refusal(input: unknown): ToolFailure | undefined {
    if (this.#caller.signal.aborted) return abandoned;
    if (this.#nesting.stop?.aborted === true) return timedOut;
    const { tool, check } = this.#catalogued;
    const { capability } = tool;
    if (capability !== undefined && !this.#caller.principal.key.capabilities.has(capability)) {
      return toolFailure("GATEWAY_PERMISSION_DENIED", `the key lacks the capability ${capability}`);
    }
    const early = tool.before?.(input);
    if (early !== undefined) return this.#known(early);
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
  async #confirm(input: object, token: string | undefined): Promise<Confirmed | ToolFailure> {
    const { tool } = this.#catalogued;
    const { confirmations } = this.#parts;
    const call = { keyId: this.#caller.principal.key.id, tool: tool.name, input };
    // What the transport carries beside the input is the more deliberate of the two.
    const shown = this.#caller.confirmationToken ?? token;
    if (shown !== undefined) {
      const redeemed = confirmations.redeem(shown, call);
      return redeemed === undefined ? confirmationExpired : { ok: true, ...redeemed };
    }
    const summarised =
      tool.summarise === undefined
        ? undefined
        : await this.#withTimeLimit(tool.summarise(input, this.#context));
    if (summarised?.ok === false) return this.#known(summarised);
    return confirmations.ask(call, summarised?.summary ?? {});
  }

  /** Reserves, uses the confirmation up, calls. An answer at hand costs neither a promise nor a timer. */
  #perform(input: unknown, confirmed: Confirmed): ToolOutcome | Promise<ToolOutcome> {
    const { tool } = this.#catalogued;
    const costMilli = this.#catalogued.costOf(input);
    const part = this.#caller.charge.open(costMilli);
    if ("kind" in part) return this.#failed(creditFailure(part));
    let begun: ToolResult | Promise<ToolResult>;
    try {
      begun = confirmed.claim() ? tool.call(input, this.#context) : confirmationExpired;
    } catch (error) {
      part.release();
      throw error;
    }
    if (!(begun instanceof Promise)) return this.#ended(begun, part, costMilli);
    return this.#withTimeLimit<ToolResult>(begun).then(
      (result) => this.#ended(result, part, costMilli),
      (error: unknown) => {
        part.release();
        throw error;
      },
    );
  }

  /** Charges a success. Credit that is not charged is given back, whatever happens. */
  #ended(result: ToolResult, part: ChargePart, costMilli: number): ToolOutcome {
    let owed = false;
    try {
      if (!result.ok) return this.#failed(this.#known(result));
      const json = textOf(result);
      if (result.usage !== undefined && !isUsage(result.usage)) {
        throw new Error("answered with a usage that is none");
      }
      mustBeJson(result.links, result.content);
      if (json.length > maxResultChars / 2 ** this.#nesting.depth) return this.#failed(tooLarge);
      owed = true;
      part.settle([{ method: this.#catalogued.tool.name, costMilli }]);
      return this.#succeeded(result, json, costMilli);
    } finally {
      if (!owed) part.release();
    }
  }

  /**
   * Waits until the tool's own code has ended or the time is up. Rejects when it throws. A caller that leaves meanwhile
   * does not end it: the work cannot be taken back, so it is carried through and charged (decisions.md section 3).
   */
  async #withTimeLimit<T>(begun: Promise<T>): Promise<T | ToolFailure> {
    const { stop } = this.#nesting;
    const ended = Promise.withResolvers<ToolFailure>();
    const expire = (): void => ended.resolve(timedOut);
    stop?.addEventListener("abort", expire, { once: true });
    if (stop?.aborted === true) expire();
    using _timer = this.#parts.clock.after(timeoutMs, expire);
    try {
      return await Promise.race([begun, ended.promise]);
    } finally {
      stop?.removeEventListener("abort", expire);
    }
  }

  #succeeded(
    { usage, links, content }: Extract<ToolResult, { readonly ok: true }>,
    json: string,
    costMilli: number,
  ): ToolOutcome {
    const { tool, metrics } = this.#catalogued;
    const latencyMs = this.#latency();
    metrics.succeeded.add(1);
    metrics.seconds.observe(latencyMs / 1000);
    const usedCUMilli = costMilli + this.#context.nestedMilli;
    this.#span?.set({ "sluice.cu.used_milli": usedCUMilli });
    this.#span?.end();
    return { ok: true, tool: tool.name, json, usedCUMilli, latencyMs, usage, links, content };
  }

  #failed(failure: ToolFailure): ToolOutcome {
    const { tool, metrics } = this.#catalogued;
    metrics.failed(failure.code);
    this.#span?.end(failure.code);
    return { ...failure, tool: tool.name, latencyMs: this.#latency() };
  }

  /** A failure with a code of the catalogue of errors, which is a metric label, and that can be told. Else it is a bug. */
  #known(failure: ToolFailure): ToolFailure {
    const { code, message, details } = failure;
    if (!Object.hasOwn(gatewayErrors, code)) throw new Error("failed with an unknown code");
    if (typeof message !== "string") throw new Error("failed without a message");
    mustBeJson(details);
    return failure;
  }

  /** Whole milliseconds since the call began. */
  #latency(): number {
    return Math.round(this.#parts.clock.monotonic() - this.#startedAt);
  }
}

/** The result as JSON text. Throws for a value that JSON cannot say: a cycle, a BigInt, nothing at all. */
function textOf(result: Extract<ToolResult, { readonly ok: true }>): string {
  const text: unknown = "json" in result ? result.json : JSON.stringify(result.value);
  if (typeof text === "string") return text;
  throw new Error("answered with something that is not JSON");
}

/** Throws for what JSON cannot say: before anybody pays, and not among the answers of other calls. */
function mustBeJson(...values: readonly unknown[]): void {
  for (const value of values) if (value !== undefined) JSON.stringify(value);
}

/** Surfaces write it into their answers as it is. */
function isUsage({ model, inputTokens, outputTokens }: ModelUsage): boolean {
  return (
    typeof model === "string" &&
    Number.isSafeInteger(inputTokens) &&
    Number.isSafeInteger(outputTokens)
  );
}

type NoCredit = Extract<ReturnType<ToolCaller["charge"]["open"]>, { readonly kind: string }>;

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
