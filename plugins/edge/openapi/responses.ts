import {
  refuse,
  type DocumentedAnswer,
  type DocumentedHeaders,
  type DocumentedRefusal,
  type JsonSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { errorRef, schemaWithExample, withExample, type Components } from "./components.ts";
import { exampleOf } from "./examples.ts";
import type { MediaType, Ref, ResponseObject } from "./objects.ts";

const retryAfter: DocumentedHeaders = {
  "Retry-After": {
    description: "Minimum number of seconds to wait; add jittered backoff.",
    schema: { type: "integer", minimum: 0 },
  },
};

export function answersOf(
  parts: readonly Operation[],
  websocket: boolean,
  components: Components,
): Record<string, Ref<ResponseObject>> {
  const common = Object.assign({}, ...parts.map((part) => part.answerHeaders ?? {})) as object;
  // The headers of each part are a record by name, so the merged headers are also a record.
  const headers = common as DocumentedHeaders;
  const answers = new Map<number, DocumentedAnswer>();
  for (const part of parts) {
    for (const [status, answer] of Object.entries(part.answers ?? {})) {
      answers.set(Number(status), answer);
    }
  }
  if (websocket) answers.set(101, { description: "The connection is now a WebSocket." });
  const refusals = Map.groupBy(
    parts.flatMap((part) => part.refusals ?? []),
    statusOf,
  );
  const refusalBody = parts.find((part) => part.refusalBody !== undefined)?.refusalBody;
  const documented = { headers, refusalBody, components };
  const statuses = [...new Set([...answers.keys(), ...refusals.keys()])].toSorted((a, b) => a - b);
  const responses: Record<string, Ref<ResponseObject>> = {};
  for (const status of statuses) {
    responses[status] = responseOf(answers.get(status), refusals.get(status), documented);
  }
  if (answers.size === 0) responses["default"] = anything(headers, components);
  return responses;
}

function statusOf({ code, status }: DocumentedRefusal): number {
  return status ?? refuse(code).status;
}

interface Documented {
  readonly headers: DocumentedHeaders;
  /** Schema of the surface's refusals, if they do not have the canonical envelope. */
  readonly refusalBody: JsonSchema | undefined;
  readonly components: Components;
}

function responseOf(
  answer: DocumentedAnswer | undefined,
  refusals: readonly DocumentedRefusal[] = [],
  { headers: common, refusalBody, components }: Documented,
): Ref<ResponseObject> {
  const descriptions = [answer?.description ?? [], refusals.map(descriptionOf)].flat();
  const headers = { ...common, ...answer?.headers };
  for (const each of refusals) Object.assign(headers, each.headers, retryOf(each));
  const answered = components.content(answer?.content ?? {}, true);
  const json = answered["application/json"]?.schema;
  const [refusal] = refusals;
  const error = refusal === undefined ? [] : [refusalBody ?? errorOf(refusals)];
  const schemas = [...(json === undefined ? [] : [json]), ...error];
  const refused =
    refusal &&
    (refusalBody === undefined ? errorExample(refusal) : exampleOf(refusalBody, { isWhole: true }));
  const content = { ...answered, ...jsonOf(schemas, answered["application/json"], refused) };
  const response = {
    description: [...new Set(descriptions.map(sentence))].join(" "),
    ...withHeaders(headers, components),
    ...(Object.keys(content).length > 0 && { content }),
  };
  if (answer !== undefined || refusals.length === 0) return response;
  return components.response(nameOf(refusals), response);
}

/** The example is the answer's if there is one. */
function jsonOf(
  schemas: readonly JsonSchema[],
  answered: MediaType | undefined,
  refused: unknown,
): Record<string, MediaType> {
  const [only] = schemas;
  if (only === undefined) return {};
  const schema = schemas.length === 1 ? only : { anyOf: schemas };
  const example = answered === undefined ? refused : answered.example;
  return { "application/json": { schema, ...withExample(example) } };
}

function errorExample({ code, details }: DocumentedRefusal): unknown {
  const example = details === undefined ? undefined : exampleOf(details, { isWhole: true });
  const given = isObject(example) ? { details: example } : {};
  return JSON.parse(String(refuse(code, given).body));
}

/** Adds a full stop, which descriptions of plugins may lack. */
function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function anything(common: DocumentedHeaders, components: Components): ResponseObject {
  return {
    description: "The surface does not describe its responses.",
    ...withHeaders(common, components),
    content: components.content({ "*/*": {} }, true),
  };
}

function withHeaders(
  headers: DocumentedHeaders,
  components: Components,
): Pick<ResponseObject, "headers"> {
  const entries = Object.entries(headers);
  if (entries.length === 0) return {};
  const shared = entries.map(([name, { description, schema }]) => {
    const header = schemaWithExample(schema, { name: name.toLowerCase(), isWhole: true });
    return [name, components.header(name, { description, ...header })] as const;
  });
  return { headers: Object.fromEntries(shared) };
}

function descriptionOf({ code, description }: DocumentedRefusal): string {
  return description ?? `The request was refused: ${messageOf(code)}.`;
}

function messageOf(code: DocumentedRefusal["code"]): string {
  const { error } = JSON.parse(String(refuse(code).body)) as { readonly error: string };
  return error;
}

function retryOf({ code }: DocumentedRefusal): DocumentedHeaders {
  return refuse(code).headers?.includes("retry-after") === true ? retryAfter : {};
}

function errorOf(refusals: readonly DocumentedRefusal[]): JsonSchema {
  const plain = refusals.filter(({ details }) => details === undefined).map(({ code }) => code);
  const cases = refusals.flatMap(({ code, details }) =>
    details === undefined ? [] : [{ properties: { error_code: { const: code }, details } }],
  );
  const codes = [...new Set(plain)].toSorted();
  const all = [
    ...(codes.length === 0 ? [] : [{ properties: { error_code: { enum: codes } } }]),
    ...cases,
  ];
  const [only] = all;
  return { allOf: [errorRef, all.length === 1 && only !== undefined ? only : { anyOf: all }] };
}

/** Returns a name such as `RateLimited` or `CuLimitExceededOrRateLimited`. */
function nameOf(refusals: readonly DocumentedRefusal[]): string {
  const status = statusOf(refusals[0] ?? { code: "GATEWAY_INTERNAL_ERROR" });
  const codes = [...new Set(refusals.map(({ code }) => code))].toSorted();
  const words = codes.map((code) =>
    code
      .slice("GATEWAY_".length)
      .toLowerCase()
      .replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase()),
  );
  const isOwn = codes.length > 1 || refuse(codes[0] ?? "GATEWAY_INTERNAL_ERROR").status === status;
  return words.join("Or") + (isOwn ? "" : String(status));
}
