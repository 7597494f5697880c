import type { DocumentedRoute, Operation } from "sluice-gateway/plugin";
import { Components } from "./components.ts";
import type { MediaType, Ref, ResponseObject } from "./objects.ts";
import { parametersOf, type Parameter } from "./parameters.ts";
import { answersOf } from "./responses.ts";

export interface OperationObject {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, MediaType>>;
  };
  readonly responses: Readonly<Record<string, Ref<ResponseObject>>>;
}

export interface OpenApiDocument {
  readonly openapi: "3.1.1";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  /** Operations by path, then by lower-case method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: ReturnType<Components["all"]>;
}

export interface DocumentInfo {
  readonly title: string;
  readonly description: string;
  readonly version: string;
  readonly url: string;
}

export function documentOf(
  routes: readonly DocumentedRoute[],
  about: DocumentInfo,
): OpenApiDocument {
  const components = new Components();
  const paths: Record<string, Record<string, OperationObject>> = {};
  const tags = new Map<string, string>();
  const ids = new Set<string>();
  for (const route of routes) {
    tags.set(tagOf(route), route.surface.description);
    const path = openApiPath(route.path);
    const operations = (paths[path] ??= {});
    for (const { method, parts } of route.operations) {
      // OpenAPI does not support CONNECT. If two routes have the same method, the first one answers.
      if (!describable.has(method) || method.toLowerCase() in operations) continue;
      operations[method.toLowerCase()] = operationOf(
        route,
        parts,
        components,
        unusedId(operationId(method, route.path), ids),
      );
    }
  }
  const { title, version, description, url } = about;
  return {
    openapi: "3.1.1",
    info: { title, version, description },
    servers: [{ url }],
    tags: [...tags].map(([name, text]) => ({ name, description: text })),
    paths: Object.fromEntries(
      Object.entries(paths).filter(([, each]) => Object.keys(each).length > 0),
    ),
    components: components.all(),
  };
}

const describable = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]);

function operationOf(
  route: DocumentedRoute,
  parts: readonly Operation[],
  components: Components,
  id: string,
): OperationObject {
  const { path, websocket, surface } = route;
  const summary = parts.findLast((part) => part.summary !== undefined)?.summary;
  const descriptions = parts.flatMap(({ description }) => description ?? []);
  const parameters = parametersOf(path, parts);
  const body = parts.findLast((part) => part.body !== undefined)?.body;
  return {
    operationId: id,
    tags: [tagOf(route)],
    summary: summary ?? surface.description.replace(/\.$/, ""),
    ...(descriptions.length > 0 && { description: descriptions.join("\n\n") }),
    security: securityOf(parts),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && {
      requestBody: { required: body.required, content: components.content(body.content, false) },
    }),
    responses: answersOf(parts, websocket, components),
  };
}

/** Spellings of words in the names of plugins that are not ordinary words. */
const spellings: Readonly<Record<string, string>> = {
  rpc: "RPC",
  mcp: "MCP",
  ws: "WebSocket",
  openapi: "OpenAPI",
};

/** Returns a title such as `Ledger RPC`. */
function tagOf({ surface: { name } }: DocumentedRoute): string {
  const text = name
    .split("-")
    .map((word) => spellings[word] ?? word)
    .join(" ");
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** The parameter's description says that it may contain slashes, which OpenAPI cannot. */
function openApiPath(path: string): string {
  return path.endsWith("/*") ? `${path.slice(0, -1)}{rest}` : path;
}

/** Returns an id such as `postV1LedgerRpc`, which client generators use as a function name. */
function operationId(method: string, path: string): string {
  const words = openApiPath(path).match(/[A-Za-z0-9]+/g) ?? ["root"];
  const capitalised = words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return method.toLowerCase() + capitalised.join("");
}

/** Adds a number to a used id, because `/a/b` and `/a/{b}` have the same one. */
function unusedId(id: string, used: Set<string>): string {
  let unused = id;
  for (let n = 2; used.has(unused); n++) unused = `${id}${n}`;
  used.add(unused);
  return unused;
}

/**
 * Each alternative has its capabilities as roles (OpenAPI 3.1, "Security Requirement Object"). All parts that require a
 * key must be satisfied.
 */
function securityOf(parts: readonly Operation[]): OperationObject["security"] {
  let alternatives: readonly (readonly string[])[] | undefined;
  for (const { access } of parts) {
    if (access === undefined) continue;
    const wanted = access.length === 0 ? [[]] : access.map((capability) => [capability]);
    alternatives = (alternatives ?? [[]]).flatMap((held) =>
      wanted.map((more) => [...new Set([...held, ...more])]),
    );
  }
  return alternatives === undefined ? [{}] : alternatives.map((key) => ({ key }));
}
