/** Responses of an operation: what its surface answers, and what it, its steps and the core refuse. */
import {
  refuse,
  type DocumentedAnswer,
  type DocumentedHeaders,
  type DocumentedRefusal,
  type JsonSchema,
  type Operation,
} from "sluice-gateway/plugin";
import { errorRef, type Components } from "./components.ts";
import type { Ref, ResponseObject } from "./objects.ts";

const retryAfter: DocumentedHeaders = {
  "Retry-After": {
    description: "Seconds: a floor, to which clients add jittered backoff.",
    schema: { type: "integer", minimum: 0 },
  },
};

export function answersOf(
  parts: readonly Operation[],
  websocket: boolean,
  components: Components,
): Record<string, Ref<ResponseObject>> {
  const common = Object.assign({}, ...parts.map((part) => part.answerHeaders ?? {})) as object;
  // Each part's headers are a record by name, and so are all of them together.
  const headers = common as DocumentedHeaders;
  const answers = new Map<number, DocumentedAnswer>();
  for (const part of parts) {
    for (const [status, answer] of Object.entries(part.answers ?? {})) {
      answers.set(Number(status), answer);
    }
  }
  if (websocket) answers.set(101, { description: "The connection is a WebSocket from here on" });
  const refusals = Map.groupBy(
    parts.flatMap((part) => part.refusals ?? []),
    statusOf,
  );
  const statuses = [...new Set([...answers.keys(), ...refusals.keys()])].toSorted((a, b) => a - b);
  const responses: Record<string, Ref<ResponseObject>> = {};
  for (const status of statuses) {
    responses[status] = responseOf(answers.get(status), refusals.get(status), headers, components);
  }
  if (answers.size === 0) responses["default"] = anything(headers, components);
  return responses;
}

function statusOf({ code, status }: DocumentedRefusal): number {
  return status ?? refuse(code).status;
}

function responseOf(
  answer: DocumentedAnswer | undefined,
  refusals: readonly DocumentedRefusal[] = [],
  common: DocumentedHeaders,
  components: Components,
): Ref<ResponseObject> {
  const descriptions = [answer?.description ?? [], refusals.map(descriptionOf)].flat();
  const headers = { ...common, ...answer?.headers };
  for (const refusal of refusals) Object.assign(headers, refusal.headers, retryOf(refusal));
  const json = answer?.content?.["application/json"];
  const error = refusals.length === 0 ? [] : [errorOf(refusals)];
  const schemas = [...(json === undefined ? [] : [json]), ...error];
  const content = {
    ...answer?.content,
    ...(schemas.length === 1 && { "application/json": schemas[0] ?? {} }),
    ...(schemas.length > 1 && { "application/json": { anyOf: schemas } }),
  };
  const response = {
    description: [...new Set(descriptions)].join("; "),
    ...withHeaders(headers, components),
    ...(Object.keys(content).length > 0 && { content: components.content(content) }),
  };
  if (answer !== undefined || refusals.length === 0) return response;
  return components.response(nameOf(refusals), response);
}

/** A surface that says nothing of itself. */
function anything(common: DocumentedHeaders, components: Components): ResponseObject {
  return {
    description: "Whatever the surface answers",
    ...withHeaders(common, components),
    content: { "*/*": { schema: {} } },
  };
}

function withHeaders(
  headers: DocumentedHeaders,
  components: Components,
): Pick<ResponseObject, "headers"> {
  const entries = Object.entries(headers);
  if (entries.length === 0) return {};
  const shared = entries.map(([name, header]) => [name, components.header(name, header)] as const);
  return { headers: Object.fromEntries(shared) };
}

function descriptionOf({ code, description }: DocumentedRefusal): string {
  return description ?? messageOf(code);
}

/** The catalogue's message. */
function messageOf(code: DocumentedRefusal["code"]): string {
  const { error } = JSON.parse(String(refuse(code).body)) as { readonly error: string };
  return error.slice(0, 1).toUpperCase() + error.slice(1);
}

function retryOf({ code }: DocumentedRefusal): DocumentedHeaders {
  return refuse(code).headers?.includes("retry-after") === true ? retryAfter : {};
}

/** The envelope with the codes of these refusals, and the details that each may have. */
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

/** `RateLimited`, `CuLimitExceededOrRateLimited`. */
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
