import {
  defineStep,
  refuse,
  violationsSchema,
  type JsonSchema,
  type Reply,
  type StepHooks,
} from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import {
  compileSchema,
  maxViolations,
  schemaFaults,
  type Check,
  type Part,
  type Violation,
} from "./schema.ts";

interface Options {
  readonly body?: JsonSchema;
  readonly query?: JsonSchema;
  readonly headers?: JsonSchema;
  readonly bodyBytes: number;
}

const parts = {
  body: { pointer: "/body", coerce: false },
  query: { pointer: "/query", coerce: true },
  headers: { pointer: "/headers", coerce: true },
} as const satisfies Record<string, Part>;

/** Only the first violation of a larger body is reported. */
const thoroughBytes = 64 * 1024;

export default defineStep<Options>({
  name: "validate",
  description: "Validates body, query and headers against JSON Schemas (draft 2020-12).",
  options: {
    type: "object",
    properties: {
      body: { description: "Schema of the JSON body.", type: "object" },
      query: {
        description:
          "Schema of the query as an object. Repeated parameters become arrays, and text is converted to the required types.",
        type: "object",
      },
      headers: {
        description:
          "Schema of the headers as an object with lower-case names. Text is converted as in the query.",
        type: "object",
      },
      bodyBytes: {
        description: "Maximum size of the body in bytes.",
        type: "integer",
        minimum: 1,
        default: 1_048_576,
      },
    },
    anyOf: [{ required: ["body"] }, { required: ["query"] }, { required: ["headers"] }],
    additionalProperties: false,
  },
  check: (options) => [
    ...(["body", "query", "headers"] as const).flatMap((name) => {
      const schema = options[name];
      return schema === undefined ? [] : schemaFaults(schema, parts[name]);
    }),
    ...upperCaseHeaders(options.headers),
  ],
  operation: ({ body, query, headers }) => ({
    ...(query && { query }),
    ...(headers && { headers }),
    ...(body && { body: { content: { "application/json": body }, required: true } }),
    refusals: [
      {
        code: "GATEWAY_SCHEMA_VIOLATION",
        description: "The request does not match its schema.",
        details: violationsSchema(maxViolations),
      },
      ...(body === undefined
        ? []
        : [{ code: "GATEWAY_INVALID_PARAMS", description: "The body is not JSON." } as const]),
    ],
  }),
  permissions: { body: "read" },
  start(options): StepHooks {
    const query = options.query && compileSchema(options.query, parts.query);
    const headers = options.headers && compileSchema(options.headers, parts.headers);
    const body = options.body && compileSchema(options.body, parts.body);
    return {
      ...((query !== undefined || headers !== undefined) && {
        requestHeaders: (x) => {
          const violations = [
            // Creates new objects each time, because coercion changes the checked object.
            ...(query?.(parseQuery(x.request.query), true) ?? []),
            ...(headers?.({ ...x.request.headers }, true) ?? []),
          ];
          return violations.length === 0 ? undefined : refused(violations);
        },
      }),
      ...(body !== undefined && bodyHooks(body, options.bodyBytes)),
    };
  },
});

function bodyHooks(check: Check, bodyBytes: number): StepHooks {
  return {
    bodyBytes,
    json: true,
    requestBody(x, bytes) {
      const json = x.json();
      if (!json.ok) {
        return refuse("GATEWAY_INVALID_PARAMS", { message: "the body is not valid JSON" });
      }
      const violations = check(json.value, bytes.length <= thoroughBytes);
      return violations === undefined ? undefined : refused(violations);
    },
  };
}

function refused(violations: readonly Violation[]): Reply {
  return refuse("GATEWAY_SCHEMA_VIOLATION", {
    details: { violations: violations.slice(0, maxViolations) },
  });
}

/** Such names would never match, because headers arrive in lower case. */
function upperCaseHeaders(schema: JsonSchema = {}): { pointer: string; message: string }[] {
  const properties = schema["properties"];
  if (!isObject(properties)) return [];
  return Object.keys(properties)
    .filter((name) => name !== name.toLowerCase())
    .map((name) => ({
      pointer: `/headers/properties/${name}`,
      message: `header names must be in lower case: write ${name.toLowerCase()}`,
    }));
}

/**
 * `a=1&b=2&b=3` becomes `{ a: "1", b: ["2", "3"] }` with form decoding (`+` is a space, percent escapes are UTF-8). The
 * object has no prototype, so that `__proto__` is an ordinary name.
 */
export function parseQuery(query: string): Record<string, string | string[]> {
  const members = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(query)) {
    const earlier = members[name];
    if (earlier === undefined) members[name] = value;
    else if (typeof earlier === "string") members[name] = [earlier, value];
    else earlier.push(value);
  }
  return members;
}
