/** Reads what the page sends: exact, nothing coerced, nothing unknown. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { isAddressBlock } from "../../../src/address-list.ts";

const ajv = new Ajv2020({ strict: true, strictRequired: false, logger: false });
ajv.addFormat("address-block", isAddressBlock);
// It will stand on terminals and in logs: no control characters.
ajv.addFormat("printable", (text: string) => !/\p{Cc}/u.test(text));

/**
 * What is wrong with a value by this schema; undefined: nothing. Compiled at first use: not every gateway is looked at.
 */
export function checker(schema: object): (value: unknown) => string | undefined {
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= ajv.compile(schema);
    if (validate(value)) return undefined;
    const [first] = validate.errors ?? [];
    const place = first?.instancePath.slice(1) ?? "";
    return `${place === "" ? "the body" : place} ${first?.message ?? "is wrong"}`;
  };
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The parameters of a query, each given once and known; undefined: one is not. The values are checked by who takes
 * them.
 */
export function queryOf(
  url: string,
  known: readonly string[],
): Readonly<Record<string, string | undefined>> | undefined {
  const mark = url.indexOf("?");
  const found: Record<string, string> = {};
  if (mark === -1) return found;
  for (const [name, value] of new URLSearchParams(url.slice(mark + 1))) {
    if (!known.includes(name) || found[name] !== undefined) return undefined;
    found[name] = value;
  }
  return found;
}
