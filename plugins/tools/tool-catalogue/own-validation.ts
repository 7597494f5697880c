/**
 * Tools with `hasOwnValidation`. Their schemas are shown, but neither compiled nor applied, because they may come from
 * another server, and checking a hostile pattern can take hours.
 */
import { isObject, jsonExcess } from "sluice-gateway/internal/toolkit";
import type { Tool } from "sluice-gateway/services";
import { rootProblem, type InputCompiler, type Violation } from "./input-schema.ts";

/** Maximum length of the definition of a tool as JSON, in UTF-16 code units. */
const maxDefinitionChars = 65_536;

const notAnObject: readonly Violation[] = [{ path: "", reason: "must be object" }];

/** Returns the problem of a definition that would be too expensive to show in lists and documents. */
export function definitionProblem(tool: Tool): string | undefined {
  const { description, inputSchema, outputSchema, annotations } = tool;
  const text = JSON.stringify([description, inputSchema, outputSchema, annotations]);
  if (text.length > maxDefinitionChars) {
    return `has a definition of ${text.length} characters, expected at most ${maxDefinitionChars}`;
  }
  return jsonExcess(text) === undefined ? undefined : "has a definition that is nested too deeply";
}

/** Returns a check that accepts every object, whatever the schema says. */
export const objectCheck: InputCompiler = (schema, what = "input") =>
  rootProblem(schema, what) ?? ((value) => (isObject(value) ? [] : notAnObject));
