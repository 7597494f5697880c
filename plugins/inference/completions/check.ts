/** Checks of the values in a request. They throw `InvalidRequest`. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/internal/toolkit";

export type Json = Readonly<Record<string, unknown>>;

export type ProblemCode = "invalid_value" | "unsupported_parameter";

/** The message is for the client. `param`: the path, such as `input[3].type`. */
export class InvalidRequest extends Error {
  readonly param: string;
  readonly code: ProblemCode;

  constructor(param: string, problem: string, code: ProblemCode) {
    super(`${param}: ${problem}`);
    this.param = param;
    this.code = code;
  }
}

export function fail(path: string, problem: string, code: ProblemCode = "invalid_value"): never {
  throw new InvalidRequest(path, problem, code);
}

/** Refuses a member that is valid but cannot be served. */
export function unsupported(path: string, problem: string): never {
  return fail(path, problem, "unsupported_parameter");
}

export function needPassed(passes: readonly Passable[], part: Passable, path: string): void {
  if (passes.includes(part)) return;
  const remedy = `its operator has to add \`${part}\` to \`passes\` of the network in pipeline.yaml`;
  unsupported(path, `the network of this model does not pass on \`${part}\`; ${remedy}`);
}

/** The message repeats only a short word of the client. */
export function unknownType(path: string, type: unknown, expected: string): never {
  const isWord = typeof type === "string" && /^[a-z0-9_]{1,40}$/.test(type);
  return fail(path, `${isWord ? `"${type}"` : "this type"} is not supported, expected ${expected}`);
}

export function object(value: unknown, path: string): Json {
  return isObject(value) ? value : fail(path, "expected an object");
}

export function list(value: unknown, path: string): readonly unknown[] {
  return Array.isArray(value) ? value : fail(path, "expected a list");
}

export function text(value: unknown, path: string): string {
  return typeof value === "string" ? value : fail(path, "expected a string");
}

export function boolean(value: unknown, path: string): boolean {
  return typeof value === "boolean" ? value : fail(path, "expected true or false");
}

export function number(value: unknown, path: string): number {
  return typeof value === "number" ? value : fail(path, "expected a number");
}

export function integer(min: number, max: number): (value: unknown, path: string) => number {
  return (value, path) =>
    typeof value === "number" && Number.isInteger(value) && value >= min && value <= max
      ? value
      : fail(path, `expected an integer from ${min} to ${max}`);
}

export function name(value: unknown, path: string): string {
  return text(value, path) === "" ? fail(path, "must not be empty") : text(value, path);
}

/** Undefined if the member is missing or null. */
export function optional<T>(
  value: unknown,
  path: string,
  read: (value: unknown, path: string) => T,
): T | undefined {
  return isAbsent(value) ? undefined : read(value, path);
}
