/** The revisions with `initialize` (2024-11-05 to 2025-11-25): single messages, and the arrays of 2025-03-26. */
import { toolReport, type Reply } from "sluice-gateway/plugin";
import { answered, creditRefusal, finish, reportMethod, type McpCall } from "./mcp-call.ts";
import { canShowForms } from "./confirmation.ts";
import {
  accepted,
  codeOf,
  errorText,
  failed,
  idAsSent,
  invalidParams,
  invalidRequest,
  isObject,
  messageOf,
  methodNotFound,
  maxItems,
  noCursor,
  resultText,
  type Message,
  type Params,
} from "./json-rpc.ts";
import { isLogLevel, setLogLevel } from "./log-levels.ts";
import { completion, getPrompt, promptFailure, promptMembers } from "./prompts.ts";
import { readResource } from "./resources.ts";
import {
  arraysRevision,
  linksRevision,
  newestSessionRevision,
  sessionRevisions,
} from "./revisions.ts";
import { opening } from "./session-headers.ts";
import { callInSession, refused, type ToolAnswer } from "./session-tool-call.ts";
import type { Session } from "./sessions.ts";
import { richFrame, plainFrame, type ResultFrame } from "./tool-result.ts";

type Request = Extract<Message, { kind: "request" }>;

/** The code of these revisions for a resource that is not there. */
const resourceNotFound = -32002;

export function answerSessionMessage(
  call: McpCall,
  body: Params,
): Reply | Promise<Reply | undefined> {
  const message = messageOf(body, () => idAsSent(call.server.host, call.x.body, undefined));
  if (message.kind === "invalid") return failed(400, "null", invalidRequest);
  const isRequest = message.kind === "request";
  if (isRequest && message.method === "initialize") return initialize(call, message);
  const opened = opening(call, isRequest ? message.id : "null", isRequest);
  if (!opened.ok) return opened.reply;
  take(call, message, opened.session);
  if (!isRequest) return accepted;
  const frame = frameOf(opened.revision);
  const answer = answerTo(call, message, frame, opened);
  return answer instanceof Promise
    ? answer.then((late) => reply(call, reported(call, message, late)))
    : reply(call, reported(call, message, answer));
}

/** Reports what a request called, now that it has ended. */
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
  return finish(call, events, text);
}

/** Each item is answered alone, in order; none may be of the stateless revision, and none `initialize`. */
export async function answerSessionArray(call: McpCall, items: readonly unknown[]): Promise<Reply> {
  const opened = opening(call, "null", true);
  if (!opened.ok) return opened.reply;
  const fits = items.length > 0 && items.length <= maxItems;
  if (!fits || opened.revision !== arraysRevision) {
    const what = fits
      ? `arrays belong to revision ${arraysRevision}`
      : `an array has 1 to ${maxItems} items`;
    return failed(400, "null", { ...invalidRequest, message: `Invalid Request: ${what}` });
  }
  const answers: string[] = [];
  for (const [index, item] of items.entries()) {
    const message = messageOf(item, () => idAsSent(call.server.host, call.x.body, index));
    take(call, message, opened.session);
    if (message.kind === "invalid") {
      reportMethod(call, "", codeOf(invalidRequest));
      answers.push(errorText("null", invalidRequest));
    }
    if (message.kind !== "request") continue;
    const answer =
      message.method === "initialize"
        ? refused(message.id, invalidRequest)
        : await answerTo(call, message, plainFrame, undefined);
    answers.push(reported(call, message, answer).text);
  }
  if (answers.length === 0) return accepted;
  const body = `[${answers.join(",")}]`;
  return answered(call, body);
}

/** What the client answers to a question goes to the call that asked; a call that it cancels asks no longer. */
function take(
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

/** Never an error: what is not known is answered with the newest, and the client decides. */
function initialize(call: McpCall, { id, params }: Request): Reply {
  const asked = isObject(params) ? params["protocolVersion"] : undefined;
  const revision =
    typeof asked === "string" && sessionRevisions.includes(asked) ? asked : newestSessionRevision;
  const { sessions, results } = call.server;
  const result = `{"protocolVersion":"${revision}",${results.initialize}}`;
  reportMethod(call, "initialize");
  const session = sessions.begin(call.principal.key.id, revision, answerable(params));
  return answered(call, resultText(id, result), ["mcp-session-id", session]);
}

/** Which questions in the middle of a call the client says it answers. Empty objects are what most clients send. */
function answerable(params: unknown): string[] {
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
    return refused(id, invalidParams("params must be an object"));
  }
  if (method === "tools/call") return callInSession(call, id, params, frame, single);
  const { byMethod } = call.server.results;
  const list = byMethod.get(method);
  if (list !== undefined) {
    const isPaged = params["cursor"] !== undefined;
    return isPaged ? refused(id, noCursor) : { text: resultText(id, `{${list}}`) };
  }
  if (method === "ping") return { text: resultText(id, "{}") };
  if (method === "logging/setLevel") {
    const { level } = params;
    if (!isLogLevel(level)) return refused(id, invalidParams("level is no log level"));
    // Without a session there is nowhere to keep it: the protocol leaves to the server what is told then.
    if (single?.session !== undefined) setLogLevel(single.session, level);
    return { text: resultText(id, "{}") };
  }
  return offered(call, id, method, params);
}

/** The methods of what not every deployment has. */
async function offered(
  call: McpCall,
  id: string,
  method: string,
  params: Params,
): Promise<ToolAnswer> {
  const { byMethod } = call.server.results;
  if (method === "resources/read" && byMethod.has("resources/list")) {
    const read = await readResource(call, params, resourceNotFound);
    return read.ok ? { text: resultText(id, `{${read.members}}`) } : refused(id, read.failure);
  }
  if (method === "prompts/get" && byMethod.has("prompts/list")) {
    const got = await getPrompt(call, params, undefined);
    return got.ok
      ? { text: resultText(id, `{${promptMembers(got)}}`) }
      : refused(id, promptFailure(got));
  }
  if (method === "completion/complete" && byMethod.has("prompts/list")) {
    const done = completion(call, params);
    return typeof done === "string" ? { text: resultText(id, `{${done}}`) } : refused(id, done);
  }
  // These clients take 404 for a lost session.
  return refused(id, methodNotFound);
}

function frameOf(revision: string): ResultFrame {
  return revision >= linksRevision ? richFrame : plainFrame;
}
