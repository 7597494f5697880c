/** The plain protocol: `{ tool, input, confirmation_token? }` is answered with the plain result. */
import type { GatewayCode, Reply } from "sluice-gateway/plugin";
import { toolReport, type ToolOutcome } from "sluice-gateway/services";
import { creditRefusal, reportMethod, runTool, timestamp, type McpCall } from "./mcp-call.ts";
import { jsonHeaders, type Params } from "./json-rpc.ts";
import { failedResult, plainFrame, toolResult } from "./tool-result.ts";

/** decisions.md section 7: every result has status 200, except for confirmations. */
const confirmationStatus: Partial<Record<GatewayCode, number>> = {
  GATEWAY_CONFIRMATION_REQUIRED: 202,
  GATEWAY_CONFIRMATION_EXPIRED: 410,
};

export function answerPlainCall(call: McpCall, body: Params): Reply | Promise<Reply> {
  const { tool, input = {}, confirmation_token: token } = body;
  if (typeof tool !== "string") return malformed(call, "tool must be a string");
  if (token !== undefined && typeof token !== "string") {
    return malformed(call, "confirmation_token must be a string");
  }
  const outcome = runTool(call, { tool, input, confirmationToken: token });
  return outcome instanceof Promise
    ? outcome.then((late) => reply(call, late))
    : reply(call, outcome);
}

function reply(call: McpCall, outcome: ToolOutcome): Reply {
  call.x.called(toolReport(outcome));
  const refusal = creditRefusal(outcome);
  if (refusal !== undefined) return refusal;
  const body = toolResult(outcome, plainFrame, timestamp(call.server));
  const status = outcome.ok ? undefined : confirmationStatus[outcome.code];
  if (outcome.ok || status === undefined) return { status: 200, headers: jsonHeaders, body };
  return { status, headers: jsonHeaders, body, code: outcome.code };
}

function malformed(call: McpCall, message: string): Reply {
  reportMethod(call, "tools/call", "GATEWAY_INVALID_PARAMS");
  const body = failedResult("GATEWAY_INVALID_PARAMS", message, plainFrame);
  return { status: 200, headers: jsonHeaders, body };
}
