/** `resources/read`: the documents that tools plugins offer beside their tools. */
import type { Resource } from "sluice-gateway/plugin";
import type { Call } from "./call.ts";
import { codes, invalidParams, type Params, type RpcFailure } from "./json-rpc.ts";

/** `members`: of the result object, without its braces. */
export type Read =
  | { readonly ok: true; readonly members: string }
  | { readonly ok: false; readonly failure: RpcFailure };

export async function readResource(call: Call, params: Params, notFound: number): Promise<Read> {
  const { uri } = params;
  if (typeof uri !== "string") {
    return { ok: false, failure: invalidParams("uri must be a string") };
  }
  const resource = call.server.resources.get(withoutFragment(uri));
  if (resource === undefined) {
    const data = { uri, errorCode: "GATEWAY_NOT_FOUND" };
    return { ok: false, failure: { code: notFound, message: "Resource not found", data } };
  }
  const { capability } = resource;
  if (capability !== undefined && !call.principal.key.capabilities.has(capability)) {
    return { ok: false, failure: denied(capability) };
  }
  try {
    return { ok: true, members: contents(uri, resource, await resource.read()) };
  } catch (error) {
    call.server.host.log.error({ err: error, uri: resource.uri }, "a resource failed");
    return { ok: false, failure: { code: codes.internal, message: "Internal error" } };
  }
}

/** A link may name a part of a document; it is read whole. */
function withoutFragment(uri: string): string {
  const hash = uri.indexOf("#");
  return hash === -1 ? uri : uri.slice(0, hash);
}

function contents(uri: string, { mimeType }: Resource, content: string | Uint8Array): string {
  const entry =
    typeof content === "string"
      ? { uri, mimeType, text: content }
      : { uri, mimeType, blob: Buffer.from(content).toString("base64") };
  return `"contents":[${JSON.stringify(entry)}]`;
}

function denied(capability: string): RpcFailure {
  return {
    code: codes.invalidParams,
    message: `the key lacks the capability ${capability}`,
    data: { errorCode: "GATEWAY_PERMISSION_DENIED" },
  };
}
