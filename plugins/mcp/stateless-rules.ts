/** What revision 2026-07-28 asks of every request: `_meta` complete, the revision known, headers that repeat the body. */
import type { IncomingHttpHeaders } from "node:http";
import { codes, invalidParams, isObject, type Params, type RpcFailure } from "./json-rpc.ts";
import { announcedRevisions, metaKeys, statelessRevision } from "./revisions.ts";

/** Which member of `params` the header `Mcp-Name` repeats. */
const named: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
};
/** What header values cannot hold comes in this form. */
const encodedForm = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;

/** The first fault (HTTP 400), or undefined. `params._meta` names a revision. */
export function statelessFault(
  headers: Readonly<IncomingHttpHeaders>,
  method: string,
  params: Params,
): RpcFailure | undefined {
  const meta = isObject(params["_meta"]) ? params["_meta"] : {};
  const version = meta[metaKeys.version];
  if (typeof version !== "string") return invalidParams(`${metaKeys.version} must be a string`);
  if (headers["mcp-protocol-version"] !== version) return mismatch("MCP-Protocol-Version");
  if (version !== statelessRevision) {
    return {
      code: codes.unsupportedVersion,
      message: "Unsupported protocol version",
      data: { supported: announcedRevisions, requested: version },
    };
  }
  if (!isObject(meta[metaKeys.capabilities])) {
    return invalidParams(`params._meta lacks ${metaKeys.capabilities}`);
  }
  if (headers["mcp-method"] !== method) return mismatch("Mcp-Method");
  const member = named[method];
  if (member === undefined) return undefined;
  return nameOf(headers["mcp-name"]) === params[member] ? undefined : mismatch("Mcp-Name");
}

function mismatch(header: string): RpcFailure {
  return {
    code: codes.headerMismatch,
    message: `the header ${header} is missing or differs from the body`,
  };
}

/** The header's value, decoded; null when there is none or it is no UTF-8 in canonical base64. */
function nameOf(value: string | readonly string[] | undefined): string | null {
  if (typeof value !== "string") return null;
  if (!value.startsWith("=?base64?") || !value.endsWith("?=")) return value;
  const encoded = encodedForm.exec(value)?.[1];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return Buffer.from(text, "utf8").toString("base64") === encoded ? text : null;
}
