/** Validates the input from the page strictly: no coercion and no unknown members. */
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { isAddressBlock } from "sluice-gateway/internal/http";

const ajv = new Ajv2020({
  strict: true,
  strictRequired: false,
  logger: false,
  validateSchema: false,
});
ajv.addFormat("address-block", isAddressBlock);
// The text is printed on terminals and in logs, so it must not contain control characters.
ajv.addFormat("printable", (text: string) => !/\p{Cc}/u.test(text));

/** Returns the first violation of the schema. It is compiled at first use, because not every dashboard is used. */
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

export type ReadBody<T> = (value: unknown) => { readonly value: T } | { readonly wrong: string };

export function body<T>(
  required: readonly string[],
  properties: object,
  more: object = {},
): ReadBody<T> {
  const check = checker({
    type: "object",
    properties,
    required,
    additionalProperties: false,
    ...more,
  });
  return (value) => {
    const wrong = check(value);
    // The schema and the type are equivalent.
    return wrong === undefined ? { value: value as T } : { wrong };
  };
}

/** Undefined if a parameter is unknown or repeated. The caller checks the values. */
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

const maxPage = 100_000;

/** Counts from 0. Undefined if the text is not a number of a page. */
export function pageOf(text = "0"): number | undefined {
  const page = /^\d{1,6}$/.test(text) ? Number(text) : undefined;
  return page !== undefined && page <= maxPage ? page : undefined;
}
