/** Every check throws `BrokenContract`, which becomes GATEWAY_INTERNAL_ERROR. */
import { gatewayErrors } from "sluice-gateway/plugin";
import type { ModelUsage, ToolFailure, ToolResult } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";

export class BrokenContract extends Error {}

/** The code must be known, because it is a metric label. */
export function checkedFailure(failure: ToolFailure): ToolFailure {
  const { code, message, details, asks } = failure;
  if (!Object.hasOwn(gatewayErrors, code)) {
    throw new BrokenContract("the tool failed with an unknown code");
  }
  if (typeof message !== "string") throw new BrokenContract("the tool failed without a message");
  if (asks !== undefined) assertItems(Object.values(asks.requests), "asks.requests");
  assertJson(details, asks);
  return failure;
}

/** Throws for a value that JSON cannot represent: a cycle, a BigInt, undefined. */
export function textOf(result: Extract<ToolResult, { readonly ok: true }>): string {
  const text: unknown = "json" in result ? result.json : toJson(result.value);
  if (typeof text === "string") return text;
  throw new BrokenContract("the tool returned a result that is not JSON");
}

/** Called before the call is charged and before the answers of other calls are affected. */
export function assertJson(...values: readonly unknown[]): void {
  for (const value of values) if (value !== undefined) toJson(value);
}

/** Surfaces read the items one by one. */
export function assertItems(items: unknown, name: string): void {
  if (items === undefined || (Array.isArray(items) && items.every(isObject))) return;
  throw new BrokenContract(`the tool returned invalid \`${name}\`; expected a list of objects`);
}

function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new BrokenContract("the tool returned a value that JSON cannot represent", {
      cause: error,
    });
  }
}

export function valueOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw new BrokenContract("the tool returned text that is not JSON");
  }
}

/** Surfaces write the usage into their answers unchanged. */
export function isUsage({ model, inputTokens, outputTokens }: ModelUsage): boolean {
  return (
    typeof model === "string" &&
    Number.isSafeInteger(inputTokens) &&
    Number.isSafeInteger(outputTokens)
  );
}
