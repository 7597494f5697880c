import type { Resource, ResourceTemplate } from "sluice-gateway/services";
import { logFailure, withTimeLimit, type McpCall } from "./mcp-call.ts";
import type { RpcFailure } from "../json-rpc-texts.ts";
import { codes, internalError, invalidParams, type Params } from "./json-rpc.ts";

type Source = Resource | ResourceTemplate;

/**
 * Returns the members of the result as JSON text, without braces. `notFound`: the error code of the revision for a
 * missing resource.
 */
export async function readResource(
  call: McpCall,
  params: Params,
  notFound: number,
): Promise<string | RpcFailure> {
  const { uri } = params;
  if (typeof uri !== "string") return invalidParams("uri must be a string");
  const { capabilities } = call.principal.key;
  const mayRead = ({ capability }: Source): boolean =>
    capability === undefined || capabilities.has(capability);
  const resource = call.server.resources.get(withoutFragment(uri));
  if (resource !== undefined) {
    if (!mayRead(resource)) return missingCapabilityError(resource.capability);
    return (await readOne(call, resource, uri)) ?? missing(uri, notFound);
  }
  for (const template of call.server.tools.resourceTemplates) {
    const read = mayRead(template) ? await readOne(call, template, uri) : undefined;
    if (read !== undefined) return read;
  }
  return missing(uri, notFound);
}

async function readOne(
  call: McpCall,
  source: Source,
  uri: string,
): Promise<string | RpcFailure | undefined> {
  try {
    const content = await withTimeLimit(call.server.clock, source.read(uri));
    if (content === undefined) return undefined;
    return contents(uri, source.mimeType, content);
  } catch (error) {
    logFailure(call, error, { resource: source.name }, "a resource failed");
    return internalError;
  }
}

/** A link may refer to a part of a document, but documents are read as a whole. */
function withoutFragment(uri: string): string {
  const hash = uri.indexOf("#");
  return hash === -1 ? uri : uri.slice(0, hash);
}

function contents(uri: string, mimeType: string, content: string | Uint8Array): string {
  const entry =
    typeof content === "string"
      ? { uri, mimeType, text: content }
      : { uri, mimeType, blob: Buffer.from(content).toString("base64") };
  return `"contents":[${JSON.stringify(entry)}]`;
}

function missing(uri: string, code: number): RpcFailure {
  const data = { uri, errorCode: "GATEWAY_NOT_FOUND" };
  return { code, message: "Resource not found", data };
}

/** HTTP 403 is not used, because clients of this protocol would then request another kind of key. */
export function missingCapabilityError(capability: string | undefined): RpcFailure {
  return {
    code: codes.invalidParams,
    message: `the key lacks the capability ${capability ?? ""}`,
    data: { errorCode: "GATEWAY_PERMISSION_DENIED" },
  };
}
