import type { Reply } from "sluice-gateway/plugin";
import { toolReport, type Dialogue, type ToolOutcome } from "sluice-gateway/services";
import {
  answerReply,
  creditRefusal,
  inputRequiredResult,
  sendAnswer,
  reportMethod,
  reportStream,
  runTool,
  timestamp,
  type McpCall,
} from "./mcp-call.ts";
import {
  answerInRetry,
  confirmationQuestion,
  canShowForms,
  type UserAnswer,
} from "./confirmation.ts";
import { clientCapabilities, type StatelessCall } from "./stateless-dialogue.ts";
import type { EventStream } from "./event-stream.ts";
import { errorText, resultText, type RpcFailure } from "../json-rpc-texts.ts";
import { codeOf, errorReply, invalidParams, type Params } from "./json-rpc.ts";
import { logLevelIn } from "./log-levels.ts";
import { paramMismatch } from "./param-headers.ts";
import { headerMismatch } from "./stateless-checks.ts";
import { failedResult, toolResult } from "./tool-result.ts";

interface ClientInput {
  readonly userAnswer?: UserAnswer | undefined;
  readonly dialogue?: Dialogue | undefined;
}

/**
 * In this revision a client cancels by closing the connection, which ends its questions. A tool that has not started is
 * not run.
 */
export function callTool(
  call: McpCall,
  id: string,
  params: Params,
): Reply | Promise<Reply | undefined> {
  const { name: tool, arguments: input = {} } = params;
  if (typeof tool !== "string") return refused(call, id, invalidParams("name must be a string"));
  const { writes } = call.server;
  const { paramHeaders, statelessFrame: frame } = call.server.results;
  const repeated = paramHeaders.get(tool);
  const wrong = repeated && paramMismatch(repeated, call.x.request.headers, input);
  if (wrong !== undefined) return refused(call, id, headerMismatch(wrong));
  const statelessCall = { keyId: call.principal.key.id, method: "tools/call", name: tool };
  const clientInput = readClientInput(call, params, statelessCall);
  if ("code" in clientInput) return refused(call, id, clientInput);
  const { userAnswer, dialogue } = clientInput;
  if (userAnswer?.kind === "declined") {
    const declined = failedResult("GATEWAY_PERMISSION_DENIED", "the user declined", frame);
    call.x.called({
      kind: "tool",
      name: tool,
      isListed: writes.has(tool),
      code: "GATEWAY_PERMISSION_DENIED",
    });
    return answerReply(call, resultText(id, declined));
  }
  const events = reportStream(call, params, logLevelIn(params));
  const confirmationToken = userAnswer?.kind === "confirmed" ? userAnswer.token : undefined;
  const outcome = runTool(call, {
    tool,
    input,
    meta: params["_meta"],
    confirmationToken,
    dialogue,
    events,
  });
  const one: ToolRequest = { call, id, params, clientInput, statelessCall: statelessCall, events };
  return outcome instanceof Promise
    ? outcome.then((late) => reply(one, late))
    : reply(one, outcome);
}

function refused(call: McpCall, id: string, failure: RpcFailure): Reply {
  reportMethod(call, "tools/call", codeOf(failure));
  return errorReply(400, id, failure);
}

interface ToolRequest {
  readonly call: McpCall;
  readonly id: string;
  readonly params: Params;
  readonly clientInput: ClientInput;
  readonly statelessCall: StatelessCall;
  readonly events: EventStream | undefined;
}

function reply(one: ToolRequest, outcome: ToolOutcome): Reply | Promise<undefined> {
  const { call, id, events } = one;
  const questionResult = question(one, outcome);
  const report = toolReport(outcome);
  // A call that asks its client a question is not reported as failed, because it continues with the answer.
  call.x.called(typeof questionResult === "string" ? { ...report, code: undefined } : report);
  const isOpen = events?.opened === true;
  const refusal = isOpen ? undefined : creditRefusal(outcome);
  if (refusal !== undefined) return refusal;
  if (typeof questionResult === "object") {
    return isOpen
      ? sendAnswer(call, events, errorText(id, questionResult))
      : errorReply(400, id, questionResult);
  }
  const { server } = call;
  const result =
    questionResult ?? toolResult(outcome, server.results.statelessFrame, timestamp(server));
  return sendAnswer(call, events, resultText(id, result));
}

function readClientInput(
  call: McpCall,
  params: Params,
  statelessCall: StatelessCall,
): ClientInput | RpcFailure {
  const { writes, dialogues } = call.server;
  return writes.has(statelessCall.name)
    ? { userAnswer: answerInRetry(params) }
    : dialogues.read(params, statelessCall);
}

function question(
  { call, params, clientInput: { userAnswer, dialogue }, statelessCall: asker }: ToolRequest,
  outcome: ToolOutcome,
): string | RpcFailure | undefined {
  if (outcome.ok) return undefined;
  if (dialogue === undefined) {
    // A client that dismissed the question gets the token itself.
    const asks = userAnswer?.kind !== "cancelled" && canShowForms(clientCapabilities(params));
    const confirmation = asks ? confirmationQuestion(outcome) : undefined;
    if (confirmation === undefined) return undefined;
    const requests = JSON.stringify(confirmation.requests);
    return inputRequiredResult(
      call,
      `"inputRequests":${requests},"requestState":${JSON.stringify(confirmation.token)}`,
    );
  }
  if (outcome.asks === undefined) return undefined;
  const questions = call.server.dialogues.ask(outcome.asks, dialogue, asker);
  return typeof questions === "string" ? inputRequiredResult(call, questions) : questions;
}
