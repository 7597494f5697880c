import { type Awaitable, type ChildSpan, type Clock, type Log } from "sluice-gateway/plugin";
import { andThen } from "sluice-gateway/internal/toolkit";
import {
  toolFailure,
  type ChargePart,
  type ToolCaller,
  type ToolFailure,
  type ToolOutcome,
  type ToolResult,
} from "sluice-gateway/services";
import { CallContext, type Nesting, type NestingTools } from "./call-context.ts";
import type { CataloguedTool } from "./catalogued-tool.ts";
import { takeToken, type Confirmations, type Confirmed } from "./confirmation.ts";
import {
  assertItems,
  assertJson,
  BrokenContract,
  checkedFailure,
  isUsage,
  textOf,
  valueOf,
} from "./result-checks.ts";

export interface RunDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly tools: NestingTools;
  readonly confirmations: Confirmations;
}

/** decisions.md section 6. */
const timeoutMs = 30_000;

/**
 * Maximum length of a result in characters. The largest block of a node, decoded, has about 30 million. Each level of
 * nesting gets half of the limit of the enclosing call, so that a tool can combine the results of others; one string
 * can hold 2^29 characters.
 */
const maxResultChars = 64 * 1024 * 1024;

const timedOut = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the tool did not answer in time");
const abandoned = toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the caller has left");
const tooLarge: ToolFailure = {
  ...toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the result is too large"),
  isCharged: true,
};
const broken = toolFailure("GATEWAY_INTERNAL_ERROR", "internal error");

const noConfirmationNeeded: Confirmed = { ok: true, claim: () => undefined };

export class ToolRun {
  readonly #catalogued: CataloguedTool;
  readonly #caller: ToolCaller;
  readonly #nesting: Nesting;
  readonly #deps: RunDeps;
  readonly #startedAt: number;
  readonly #span: ChildSpan | undefined;
  readonly #context: CallContext;
  /** Time when the code of the tool was called. Undefined for a call that was refused before that. */
  #calledAt: number | undefined;

  constructor(catalogued: CataloguedTool, caller: ToolCaller, nesting: Nesting, deps: RunDeps) {
    this.#catalogued = catalogued;
    this.#caller = caller;
    this.#nesting = nesting;
    this.#deps = deps;
    this.#startedAt = deps.clock.monotonic();
    const { name } = catalogued.tool;
    this.#span = caller.trace?.child(`execute_tool ${name}`, "internal", {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
    });
    this.#context = new CallContext(caller, nesting.depth, deps.tools, this.#span);
  }

  /**
   * Never throws or rejects: an exception is a bug and becomes GATEWAY_INTERNAL_ERROR. Returns a promise only if the
   * tool returns one or is a write tool.
   */
  run(given: unknown): ToolOutcome | Promise<ToolOutcome> {
    let outcome: ToolOutcome | Promise<ToolOutcome>;
    try {
      outcome = this.#outcome(given);
    } catch (error) {
      outcome = this.#internalError(error);
    }
    if (outcome instanceof Promise) return this.#later(outcome);
    this.#context.end();
    return outcome;
  }

  async #later(outcome: Promise<ToolOutcome>): Promise<ToolOutcome> {
    try {
      return await outcome;
    } catch (error) {
      return this.#internalError(error);
    } finally {
      this.#context.end();
    }
  }

  #internalError(error: unknown): ToolOutcome {
    const { name } = this.#catalogued.tool;
    const { requestId } = this.#caller;
    this.#deps.log.error({ err: error, tool: name, requestId }, "a tool failed");
    this.#catalogued.counts.failed(error instanceof BrokenContract ? "contract" : "throw");
    return this.#failed(broken);
  }

  #outcome(given: unknown): ToolOutcome | Promise<ToolOutcome> {
    const refused = this.#refusal(given);
    if (refused !== undefined) return this.#failed(refused);
    if (this.#catalogued.entry.write) return this.#write(given);
    return this.#perform(given, this.#catalogued.costOf(given), noConfirmationNeeded);
  }

  async #write(given: unknown): Promise<ToolOutcome> {
    const { input, token } = takeToken(given);
    const costMilliCu = this.#catalogued.costOf(input);
    const confirmed = await this.#confirm(input, costMilliCu, token);
    if (!confirmed.ok) return this.#failed(confirmed);
    return this.#perform(input, costMilliCu, confirmed);
  }

  #reasonNotToBegin(): ToolFailure | undefined {
    if (this.#caller.signal.aborted) return abandoned;
    return this.#nesting.stop?.aborted === true ? timedOut : undefined;
  }

  #refusal(input: unknown): ToolFailure | undefined {
    const reason = this.#reasonNotToBegin();
    if (reason !== undefined) return reason;
    const { tool, check } = this.#catalogued;
    const { capability } = tool;
    if (capability !== undefined && !this.#caller.principal.key.capabilities.has(capability)) {
      return toolFailure("GATEWAY_PERMISSION_DENIED", `the key lacks the capability ${capability}`);
    }
    const early = tool.before?.(input);
    if (early !== undefined) return checkedFailure(early);
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

  async #confirm(
    input: object,
    costMilliCu: number,
    token: string | undefined,
  ): Promise<Confirmed | ToolFailure> {
    const { tool, entry } = this.#catalogued;
    const { confirmations } = this.#deps;
    const call = { keyId: this.#caller.principal.key.id, entry, input, costMilliCu };
    // A token of the transport takes precedence over one in the input, because it is the more deliberate of the two.
    const presentedToken = this.#caller.confirmationToken ?? token;
    if (presentedToken !== undefined) return confirmations.redeem(presentedToken, call);
    if (tool.summarise !== undefined) this.#calledAt = this.#deps.clock.monotonic();
    const summarised =
      tool.summarise === undefined
        ? undefined
        : await this.#withTimeLimit(tool.summarise(input, this.#context));
    if (summarised?.ok === false) return checkedFailure(summarised);
    assertJson(summarised?.summary);
    return confirmations.ask(call, summarised?.summary ?? {});
  }

  /** A result that is available at once needs neither a promise nor a timer. */
  #perform(input: unknown, costMilliCu: number, confirmed: Confirmed): Awaitable<ToolOutcome> {
    const opening = this.#caller.charge.open(costMilliCu);
    const hasWaited = opening instanceof Promise;
    return andThen(opening, (part) => {
      if ("kind" in part) return this.#failed(creditFailure(part));
      const reason = hasWaited ? this.#reasonNotToBegin() : undefined;
      if (reason === undefined) return this.#performPaid(input, confirmed, part, costMilliCu);
      part.release();
      return this.#failed(reason);
    });
  }

  #performPaid(
    input: unknown,
    confirmed: Confirmed,
    part: ChargePart,
    costMilliCu: number,
  ): Awaitable<ToolOutcome> {
    const { tool } = this.#catalogued;
    let begun: ToolResult | Promise<ToolResult>;
    try {
      begun = andThen(confirmed.claim(), (failure) => {
        if (failure !== undefined) return failure;
        this.#calledAt = this.#deps.clock.monotonic();
        return tool.call(input, this.#context);
      });
    } catch (error) {
      part.release();
      throw error;
    }
    if (!(begun instanceof Promise)) return this.#ended(begun, part, costMilliCu);
    return this.#withTimeLimit<ToolResult>(begun).then(
      (result) => this.#ended(result, part, costMilliCu),
      (error: unknown) => {
        part.release();
        throw error;
      },
    );
  }

  /** Credit that is not charged is released in any case. */
  #ended(result: ToolResult, part: ChargePart, costMilliCu: number): ToolOutcome {
    let isCharged = false;
    const charge = (): void => {
      isCharged = true;
      part.settle([{ method: this.#catalogued.tool.name, costMilliCu }]);
    };
    try {
      if (!result.ok) {
        const failure = checkedFailure(result);
        if (failure.isCharged === true) charge();
        return this.#failed(failure);
      }
      const json = textOf(result);
      if (json.length > maxResultChars / 2 ** this.#nesting.depth) {
        charge();
        return this.#failed(tooLarge);
      }
      this.#checkOutput(json);
      if (result.usage !== undefined && !isUsage(result.usage)) {
        throw new BrokenContract("the tool returned an invalid usage");
      }
      assertItems(result.links, "links");
      assertItems(result.content, "content");
      assertJson(result.links, result.content, result.proof);
      charge();
      return this.#succeeded(result, json, costMilliCu);
    } finally {
      if (!isCharged) part.release();
    }
  }

  #checkOutput(json: string): void {
    const [first] = this.#catalogued.checkOutput?.(valueOf(json)) ?? [];
    if (first === undefined) return;
    const where = first.path === "" ? "the result" : first.path;
    throw new BrokenContract(
      `the result does not match the output schema: ${where} ${first.reason}`,
    );
  }

  /**
   * Rejects if the tool throws. If the caller disconnects, the tool continues: its work cannot be undone, so it is
   * completed and charged (decisions.md section 3).
   */
  async #withTimeLimit<T>(begun: Promise<T>): Promise<T | ToolFailure> {
    const { stop } = this.#nesting;
    const ended = Promise.withResolvers<ToolFailure>();
    const expire = (): void => ended.resolve(timedOut);
    stop?.addEventListener("abort", expire, { once: true });
    if (stop?.aborted === true) expire();
    using _timer = this.#deps.clock.after(timeoutMs, () => {
      this.#catalogued.counts.timedOut();
      expire();
    });
    try {
      return await Promise.race([begun, ended.promise]);
    } finally {
      stop?.removeEventListener("abort", expire);
    }
  }

  #succeeded(
    { usage, proof, links, content }: Extract<ToolResult, { readonly ok: true }>,
    json: string,
    costMilliCu: number,
  ): ToolOutcome {
    const { tool, metrics, checkOutput } = this.#catalogued;
    const latencyMs = this.#countTime();
    metrics.succeeded.add(1);
    metrics.seconds.observe(latencyMs / 1000);
    const usedCUMilli = costMilliCu + this.#context.nestedMilliCu;
    this.#span?.set({ "sluice.cu.used_milli": usedCUMilli });
    this.#span?.end();
    const isStructured = checkOutput !== undefined;
    const { name } = tool;
    return {
      ok: true,
      tool: name,
      json,
      isStructured,
      usedCUMilli,
      latencyMs,
      usage,
      proof,
      links,
      content,
    };
  }

  #failed(failure: ToolFailure): ToolOutcome {
    const { tool, metrics, counts } = this.#catalogued;
    metrics.failed(failure.code);
    counts.refused(failure.code);
    this.#span?.end(failure.code);
    return { ...failure, tool: tool.name, latencyMs: this.#countTime() };
  }

  #countTime(): number {
    const now = this.#deps.clock.monotonic();
    if (this.#calledAt !== undefined) this.#catalogued.counts.ended(now - this.#calledAt);
    return Math.round(now - this.#startedAt);
  }
}

type NoCredit = Extract<ReturnType<ToolCaller["charge"]["open"]>, { readonly kind: string }>;

function creditFailure(refusal: NoCredit): ToolFailure {
  if (refusal.kind === "unavailable") {
    return toolFailure("GATEWAY_SERVICE_UNAVAILABLE", "temporarily unavailable");
  }
  const { window, usedMilliCu, limitMilliCu } = refusal;
  return toolFailure("GATEWAY_CU_LIMIT_EXCEEDED", "credit limit exceeded", {
    ...(window !== undefined && { window }),
    used_cu_milli: usedMilliCu,
    limit_cu_milli: limitMilliCu,
  });
}
