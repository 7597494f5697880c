/** The plain lane: `{ tool, input, confirmation_token? }`, answered with the bare result. */
import type { Reply, ToolOutcome } from "sluice-gateway/plugin";
import { creditRefusal, runTool, timestamp, type Call } from "./call.ts";
import { jsonHeaders, type Params } from "./json-rpc.ts";
import { failedResult, plainFrame, toolResult } from "./tool-result.ts";

export function plain(call: Call, body: Params): Reply | Promise<Reply> {
  const { tool, input = {}, confirmation_token: token } = body;
  if (typeof tool !== "string") return malformed("tool must be a string");
  if (token !== undefined && typeof token !== "string") {
    return malformed("confirmation_token must be a string");
  }
  const outcome = runTool(call, { tool, input, confirmationToken: token });
  return outcome instanceof Promise
    ? outcome.then((late) => reply(call, late))
    : reply(call, outcome);
}

function reply(call: Call, outcome: ToolOutcome): Reply {
  const refusal = creditRefusal(outcome);
  if (refusal !== undefined) return refusal;
  const result = toolResult(outcome, plainFrame, timestamp(call.server));
  return { status: statusOf(outcome), headers: jsonHeaders, body: result };
}

function malformed(message: string): Reply {
  const body = failedResult("GATEWAY_INVALID_PARAMS", message, plainFrame);
  return { status: 200, headers: jsonHeaders, body };
}

/** decisions.md section 7: 200 for every result, but for confirmation. */
function statusOf(outcome: ToolOutcome): number {
  if (outcome.ok) return 200;
  if (outcome.code === "GATEWAY_CONFIRMATION_REQUIRED") return 202;
  return outcome.code === "GATEWAY_CONFIRMATION_EXPIRED" ? 410 : 200;
}
