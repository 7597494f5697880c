/** A member of a request that the gateway does not accept. Thrown while a request is read, and answered with 400. */
import type { Passable } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";

export type ProblemCode = "invalid_value" | "unsupported_parameter";

/** `message`: the path and the reason, for the client. `param`: the path, such as `input[3].type`. */
export class RequestProblem extends Error {
  readonly param: string;
  readonly code: ProblemCode;

  constructor(code: ProblemCode, param: string, reason: string) {
    super(`${param}: ${reason}`);
    this.code = code;
    this.param = param;
  }
}

export function invalid(param: string, reason: string): RequestProblem {
  return new RequestProblem("invalid_value", param, reason);
}

export function unsupported(param: string, reason: string): RequestProblem {
  return new RequestProblem("unsupported_parameter", param, reason);
}

/** For a type that is not supported. Only a short word of the client is repeated. */
export function unknownType(param: string, type: unknown, expected: string): RequestProblem {
  const isWord = typeof type === "string" && /^[a-z0-9_]{1,40}$/.test(type);
  const reason = `${isWord ? `"${type}"` : "this type"} is not supported, expected ${expected}`;
  return unsupported(param, reason);
}

/** Throws if the network does not pass on a part of a request. Says what an operator has to do before clients can use it. */
export function needPassed(passes: readonly Passable[], part: Passable, param: string): void {
  if (passes.includes(part)) return;
  throw unsupported(
    param,
    `the network of this model does not pass ${part} on to its workers; its operator has to add \`${part}\` to \`passes\` of the network`,
  );
}

export function objectAt(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw invalid(path, "expected an object");
}

export function listAt(value: unknown, path: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw invalid(path, "expected a list");
}

/** Returns a text that is not empty. */
export function nameAt(value: unknown, path: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalid(path, "expected a text that is not empty");
}

export function textAt(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw invalid(path, "expected a text");
}
