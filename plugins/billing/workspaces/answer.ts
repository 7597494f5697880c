/** Converts results of `workspaces` of the service `accounts` to replies. */
import { refuse, type Reply } from "sluice-gateway/plugin";
import type { WorkspaceAnswer } from "sluice-gateway/services";

const notFound = refuse("GATEWAY_NOT_FOUND");
const unavailable = refuse("GATEWAY_SERVICE_UNAVAILABLE");

/** Returns the reply to a result. `body`: returns the body of the 200. */
export function replyTo<T>(
  answer: WorkspaceAnswer<T>,
  body: (value: T) => string | Uint8Array = (value) => JSON.stringify(value),
): Reply {
  if (answer.kind === "done") {
    const headers = ["content-type", "application/json"];
    return { status: 200, headers, body: body(answer.value) };
  }
  if (answer.kind === "notFound") return notFound;
  if (answer.kind === "unavailable") return unavailable;
  const code = answer.kind === "conflict" ? "GATEWAY_CONFLICT" : "GATEWAY_INVALID_PARAMS";
  return refuse(code, { message: answer.message });
}
