/** What the readers of a request share: what the network passes on, the version of the API, and checks of values. */
import type { Passable } from "sluice-gateway/services";
import { isAbsent, isObject } from "sluice-gateway/toolkit";
import type { IgnoredNames } from "./ignored-names.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface Reading {
  /** The parts of requests that the network of the model passes on. */
  readonly passes: readonly Passable[];
  /** True for the version 2026-10-21 of the API, which refuses more. */
  readonly isStrict: boolean;
  readonly ignored: IgnoredNames;
  /** Returns the text of reasoning that the gateway has sealed. Undefined for any other signature. */
  readonly openReasoning: (sealed: string) => string | undefined;
}

/** Thrown for a request that is not valid. The message begins with the path of the member. */
export class InvalidRequest extends Error {}

export function invalid(path: string, problem: string): InvalidRequest {
  return new InvalidRequest(`${path}: ${problem}`);
}

/** The error for a part of a request that the network of the model does not pass on. */
export function notPassed(path: string, part: Passable): InvalidRequest {
  return invalid(
    path,
    `the network of this model does not pass on \`${part}\`; its operator has to add \`${part}\` to \`passes\` of the network in pipeline.yaml`,
  );
}

export function objectAt(value: unknown, path: string): Json {
  if (!isObject(value)) throw invalid(path, "expected an object");
  return value;
}

export function listAt(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalid(path, "expected a list");
  return value;
}

export function stringAt(value: unknown, path: string): string {
  if (typeof value !== "string") throw invalid(path, "expected a string");
  return value;
}

export function nameAt(value: unknown, path: string): string {
  if (value === "") throw invalid(path, "must not be empty");
  return stringAt(value, path);
}

/** Returns a short word of the client for a message, and `other` for anything else. */
export function shownWord(value: unknown): string {
  return typeof value === "string" && /^[a-z0-9_]{1,40}$/.test(value) ? `"${value}"` : "this value";
}

/** The members `cache_control` and `citations` of a block have no effect. */
export function noteBlockMembers(block: Json, ignored: IgnoredNames): void {
  if (!isAbsent(block["cache_control"])) ignored.add("cache_control");
  if (!isAbsent(block["citations"])) ignored.add("citations");
}
