/** The two kinds of result object of revision 2026-07-28, around their members. */
import type { McpCall } from "./mcp-call.ts";

export function complete({ server }: McpCall, members: string): string {
  return `{"resultType":"complete",${members},"_meta":{${server.results.server}}}`;
}

/** The result of a call that goes on once the client has answered. */
export function asking({ server }: McpCall, members: string): string {
  return `{"resultType":"input_required",${members},"_meta":{${server.results.server}}}`;
}
