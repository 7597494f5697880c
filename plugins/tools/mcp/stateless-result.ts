/** The two kinds of result objects of revision 2026-07-28. `members`: the members of the result as JSON text. */
import type { McpCall } from "./mcp-call.ts";

export function completeResult({ server }: McpCall, members: string): string {
  return `{"resultType":"complete",${members},"_meta":{${server.results.server}}}`;
}

export function inputRequiredResult({ server }: McpCall, members: string): string {
  return `{"resultType":"input_required",${members},"_meta":{${server.results.server}}}`;
}
