/** The revisions with `initialize` (2024-11-05 to 2025-11-25): single messages, and the arrays of 2025-03-26. */
import { setImmediate as otherWork } from "node:timers/promises";
import type { Reply } from "sluice-gateway/plugin";
import { toolReport } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { answerReply, creditRefusal, sendAnswer, reportMethod, type McpCall } from "./mcp-call.ts";
import { canShowForms } from "./confirmation.ts";
import {
  errorText,
  maxItems,
  resultText,
  type RpcFailure,
  maxArrayChars,
  notRunMessage,
  tooLargeMessage,
} from "../json-rpc-texts.ts";
import {
  accepted,
  codeOf,
  codes,
  errorReply,
  idAsSent,
  invalidParams,
  invalidRequest,
  messageOf,
  methodNotFound,
  noCursor,
  type Message,
  type Params,
} from "./json-rpc.ts";
import { isLogLevel, setLogLevel } from "./log-levels.ts";
import { completion, getPrompt, promptMembers } from "./prompts.ts";
import { readResource } from "./resources.ts";
import {
  arraysRevision,
  linksRevision,
  newestSessionRevision,
  sessionRevisions,
} from "../mcp-revisions.ts";
import { readSessionHeaders } from "./session-headers.ts";
import { callInSession, refusedAnswer, type ToolAnswer } from "./session-tool-call.ts";
import type { Session } from "./sessions.ts";
import { richFrame, plainFrame, type ResultFrame } from "./tool-result.ts";

type Request = Extract<Message, { kind: "request" }>;

const resourceNotFound = -32002;

export function answerSessionMessage(
  call: McpCall,
  body: Params,
): Reply | Promise<Reply | undefined> {
  const message = messageOf(body, () => idAsSent(call.x.body, undefined));
  if (message.kind === "invalid") return errorReply(400, "null", invalidRequest);
  const isRequest = message.kind === "request";
  if (isRequest && message.method === "initialize") return initialize(call, message);
  const opened = readSessionHeaders(call, isRequest ? message.id : "null", isRequest);
  if (!opened.ok) return opened.reply;
  receive(call, message, opened.session);
  if (!isRequest) return accepted;
  const frame = frameOf(opened.revision);
  const answer = answerTo(call, message, frame, opened);
  return answer instanceof Promise
    ? answer.then((late) => reply(call, reported(call, message, late)))
    : reply(call, reported(call, message, answer));
}

function reported(call: McpCall, { method }: Request, answer: ToolAnswer): ToolAnswer {
  const { outcome, failure } = answer;
  if (outcome !== undefined) call.x.called(toolReport(outcome));
  else reportMethod(call, method, failure && codeOf(failure));
  return answer;
}

function reply(call: McpCall, { text, outcome, events }: ToolAnswer): Reply | Promise<undefined> {
  if (outcome !== undefined && events?.opened !== true) {
    const refusal = creditRefusal(outcome);
    if (refusal !== undefined) return refusal;
  }
  return sendAnswer(call, events, text);
}

const data = { errorCode: "GATEWAY_TOOL_EXECUTION_ERROR" };
const notRun = { code: codes.internal, message: notRunMessage, data };
const tooLarge = { code: codes.internal, message: tooLargeMessage, data };

/** Each item is answered separately and in order. Items of the stateless revision and `initialize` are not allowed. */
export async function answerSessionArray(call: McpCall, items: readonly unknown[]): Promise<Reply> {
  const opened = readSessionHeaders(call, "null", true);
  if (!opened.ok) return opened.reply;
  const isValidLength = items.length > 0 && items.length <= maxItems;
  if (!isValidLength || opened.revision !== arraysRevision) {
    const what = isValidLength
      ? `arrays are only allowed in revision ${arraysRevision}`
      : `an array must have 1 to ${maxItems} items`;
    return errorReply(400, "null", { ...invalidRequest, message: `Invalid Request: ${what}` });
  }
  using held = call.server.host.memory.hold(call.principal.key.id, "result");
  const answers: string[] = [];
  let chars = 0;
  let isFull = false;
  for (const [index, item] of items.entries()) {
    const message = messageOf(item, () => idAsSent(call.x.body, index));
    receive(call, message, opened.session);
    if (message.kind === "invalid") {
      reportMethod(call, "", codeOf(invalidRequest));
      answers.push(errorText("null", invalidRequest));
    }
    if (message.kind !== "request") continue;
    if (isFull) {
      answers.push(reported(call, message, refusedAnswer(message.id, notRun)).text);
      continue;
    }
    const answer =
      message.method === "initialize"
        ? refusedAnswer(message.id, invalidRequest)
        : await answerTo(call, message, plainFrame, undefined);
    const { text } = reported(call, message, answer);
    isFull = chars + text.length > maxArrayChars || !held.resize(chars + text.length);
    answers.push(isFull ? errorText(message.id, tooLarge) : text);
    chars += text.length;
  }
  if (answers.length === 0) return accepted;
  // The last answer may have copied 32 MiB, and all are copied again.
  await otherWork();
  const body = `[${answers.join(",")}]`;
  return answerReply(call, body);
}

/**
 * Messages that need no answer: the answer to a question is passed to the call that asked, and a cancelled call stops
 * asking.
 */
function receive(
  { server, principal }: McpCall,
  message: Message,
  session: Session | undefined,
): void {
  const { sessionQuestions } = server;
  const keyId = principal.key.id;
  if (message.kind === "response") sessionQuestions.answer(keyId, message.id, message.result);
  if (message.kind !== "notification" || message.method !== "notifications/cancelled") return;
  const request = isObject(message.params) ? message.params["requestId"] : undefined;
  if (session === undefined || request === undefined) return;
  sessionQuestions.cancel({ keyId, session: session.id, request: JSON.stringify(request) });
}

/** An unknown revision is not an error: the answer names the newest one, and the client decides. */
function initialize(call: McpCall, { id, params }: Request): Reply {
  const requestedRevision = isObject(params) ? params["protocolVersion"] : undefined;
  const revision =
    typeof requestedRevision === "string" && sessionRevisions.includes(requestedRevision)
      ? requestedRevision
      : newestSessionRevision;
  const { sessions, results } = call.server;
  const result = `{"protocolVersion":"${revision}",${results.initialize}}`;
  reportMethod(call, "initialize");
  const session = sessions.begin(call.principal.key.id, revision, questionCapabilities(params));
  return answerReply(call, resultText(id, result), ["mcp-session-id", session]);
}

/** The kinds of questions that the client answers during a call. Most clients declare them as empty objects. */
function questionCapabilities(params: unknown): string[] {
  const given = isObject(params) ? params["capabilities"] : undefined;
  if (!isObject(given)) return [];
  return [
    ...(canShowForms(given) ? ["elicitation"] : []),
    ...["sampling", "roots"].filter((name) => isObject(given[name])),
  ];
}

function answerTo(
  call: McpCall,
  { id, method, params: given }: Request,
  frame: ResultFrame,
  single: { readonly session: Session | undefined } | undefined,
): ToolAnswer | Promise<ToolAnswer> {
  const params = given ?? {};
  if (!isObject(params)) {
    return refusedAnswer(id, invalidParams("params must be an object"));
  }
  if (method === "tools/call") return callInSession(call, id, params, frame, single);
  const { byMethod } = call.server.results;
  const list = byMethod.get(method);
  if (list !== undefined) {
    const isPaged = params["cursor"] !== undefined;
    return isPaged ? refusedAnswer(id, noCursor) : { text: resultText(id, `{${list}}`) };
  }
  if (method === "ping") return { text: resultText(id, "{}") };
  if (method === "logging/setLevel") {
    const { level } = params;
    if (!isLogLevel(level)) return refusedAnswer(id, invalidParams("level is not a log level"));
    // Without a session the level cannot be stored. The protocol lets the server decide what it sends in that case.
    if (single?.session !== undefined) {
      setLogLevel(single.session, level, call.server.host.store.replicas);
    }
    return { text: resultText(id, "{}") };
  }
  return optionalMethod(call, method, params).then((members) =>
    typeof members === "string"
      ? { text: resultText(id, `{${members}}`) }
      : refusedAnswer(id, members),
  );
}

async function optionalMethod(
  call: McpCall,
  method: string,
  params: Params,
): Promise<string | RpcFailure> {
  const { byMethod } = call.server.results;
  if (method === "resources/read" && byMethod.has("resources/list")) {
    return readResource(call, params, resourceNotFound);
  }
  if (byMethod.has("prompts/list")) {
    if (method === "prompts/get") return promptMembers(await getPrompt(call, params, undefined));
    if (method === "completion/complete") return completion(call, params);
  }
  // HTTP 404 is not used, because these clients interpret it as a lost session.
  return methodNotFound;
}

function frameOf(revision: string): ResultFrame {
  return revision >= linksRevision ? richFrame : plainFrame;
}
