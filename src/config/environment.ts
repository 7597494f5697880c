/**
 * The value of `${NAME}` comes from the variable NAME, else from the file that NAME_FILE names, as in containers that
 * mount secrets as files, else from the default of `${NAME:-default}`.
 */
import { readFileSync } from "node:fs";
import { fault, type Fault, type Position } from "./fault.ts";
import { nearest } from "./nearest.ts";
import { errorCode } from "../base/error-code.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Expansion {
  readonly text: string;
  readonly expanded: boolean;
  /** Every `${…}` of the text, at least one, was replaced by its default. */
  readonly defaulted: boolean;
  readonly faults: readonly Fault[];
}

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The default also replaces a variable that is empty, as in a shell. `$${` is a literal `${`. The value of a variable
 * is not expanded again, and it never appears in a fault.
 */
export function expandText(text: string, env: Environment, at: Position): Expansion {
  if (!text.includes("${")) return { text, expanded: false, defaulted: false, faults: [] };
  const faults: Fault[] = [];
  let result = "";
  let expanded = false;
  let given = false;
  let from = 0;
  for (;;) {
    const open = text.indexOf("${", from);
    if (open === -1) break;
    if (open > from && text[open - 1] === "$") {
      result += text.slice(from, open - 1) + "${";
      from = open + 2;
      continue;
    }
    result += text.slice(from, open);
    expanded = true;
    const close = text.indexOf("}", open);
    if (close === -1) {
      faults.push(fault("SLUICE_ENV_SYNTAX", '"${" without a closing "}"', { at }));
      from = text.length;
      break;
    }
    const variable = readVariable(text.slice(open + 2, close), env, at, faults);
    result += variable.value;
    given ||= variable.given;
    from = close + 1;
  }
  return { text: result + text.slice(from), expanded, defaulted: expanded && !given, faults };
}

/** `given`: the value comes from the variable, not from the default. */
function readVariable(
  inner: string,
  env: Environment,
  at: Position,
  faults: Fault[],
): { readonly value: string; readonly given: boolean } {
  const split = inner.indexOf(":-");
  const name = split === -1 ? inner : inner.slice(0, split);
  const standIn = split === -1 ? undefined : inner.slice(split + 2);
  if (!namePattern.test(name) || standIn?.includes("${") === true) {
    faults.push(
      fault("SLUICE_ENV_SYNTAX", `"\${${inner}}" does not name an environment variable`, { at }),
    );
    return { value: "", given: false };
  }
  const value = env[name];
  if (value !== undefined && value !== "") return { value, given: true };
  const file = env[`${name}_FILE`];
  if (file !== undefined && file !== "") return readSecret(`${name}_FILE`, file, at, faults);
  if (value !== undefined && standIn === undefined) return { value, given: true };
  if (standIn !== undefined) return { value: standIn, given: false };
  const didYouMean = nearest(name, Object.keys(env));
  faults.push(
    fault("SLUICE_ENV_UNSET", `environment variable ${name} is not set`, { at, didYouMean }),
  );
  return { value: "", given: false };
}

/** Secrets and addresses are far smaller, but a file that was named by mistake may be larger. */
const maxFileBytes = 64 * 1024;

/** Omits the line break that editors and `echo` add at the end of a file. */
function readSecret(
  variable: string,
  file: string,
  at: Position,
  faults: Fault[],
): { readonly value: string; readonly given: boolean } {
  const failed = (reason: string): { value: string; given: boolean } => {
    faults.push(fault("SLUICE_ENV_FILE", `${variable}: ${reason}`, { at }));
    return { value: "", given: false };
  };
  try {
    const bytes = readFileSync(file);
    if (bytes.length > maxFileBytes) {
      return failed(`"${file}" has ${bytes.length} bytes; the maximum is ${maxFileBytes}`);
    }
    const value = new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
    return value === "" ? failed(`"${file}" is empty`) : { value, given: true };
  } catch (error) {
    const code = errorCode(error) ?? "unreadable";
    return failed(
      code === "ERR_ENCODING_INVALID_ENCODED_DATA"
        ? `"${file}" is not UTF-8 text`
        : `cannot read "${file}" (${code})`,
    );
  }
}
