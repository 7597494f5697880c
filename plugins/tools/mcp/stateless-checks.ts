/** Every request of revision 2026-07-28: `_meta` is complete, the revision is known, and headers repeat the body. */
import type { IncomingHttpHeaders } from "node:http";
import { isObject } from "sluice-gateway/internal/toolkit";
import { decodeHeader } from "./param-headers.ts";
import type { RpcFailure } from "../json-rpc-texts.ts";
import { codes, invalidParams, type Params } from "./json-rpc.ts";
import { isLogLevel } from "./log-levels.ts";
import { announcedRevisions, metaKeys, statelessRevision } from "../mcp-revisions.ts";

/** The member of `params` that the header `Mcp-Name` repeats. */
const memberInHeader: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
};

/** Undefined if there is no problem. `params._meta` must name a revision. */
export function statelessProblem(
  headers: Readonly<IncomingHttpHeaders>,
  method: string,
  params: Params,
): RpcFailure | undefined {
  const meta = isObject(params["_meta"]) ? params["_meta"] : {};
  const version = meta[metaKeys.version];
  if (typeof version !== "string") return invalidParams(`${metaKeys.version} must be a string`);
  if (headers["mcp-protocol-version"] !== version) return headerMismatch("MCP-Protocol-Version");
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
  const level = meta[metaKeys.logLevel];
  if (level !== undefined && !isLogLevel(level)) {
    return invalidParams(`${metaKeys.logLevel} is not a log level`);
  }
  if (headers["mcp-method"] !== method) return headerMismatch("Mcp-Method");
  const member = memberInHeader[method];
  if (member === undefined) return undefined;
  return decodeHeader(headers["mcp-name"]) === params[member]
    ? undefined
    : headerMismatch("Mcp-Name");
}

export function headerMismatch(header: string): RpcFailure {
  return {
    code: codes.headerMismatch,
    message: `the header ${header} is missing or differs from the body`,
  };
}
