/** The two kinds of result object of revision 2026-07-28, around their members. */
import type { Call } from "./call.ts";

export function complete({ server }: Call, members: string): string {
  return `{"resultType":"complete",${members},"_meta":{${server.lists.server}}}`;
}

/** The result of a call that goes on once the client has answered. */
export function asking({ server }: Call, members: string): string {
  return `{"resultType":"input_required",${members},"_meta":{${server.lists.server}}}`;
}
