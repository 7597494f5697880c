/**
 * Revision 2026-07-28: every request names its client and revision, its headers repeat them, and the server remembers
 * nothing.
 */
import type { Reply } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import {
  answerReply,
  completeResult,
  inputRequiredResult,
  reportMethod,
  type McpCall,
} from "./mcp-call.ts";
import { resultText, type RpcFailure } from "../json-rpc-texts.ts";
import {
  accepted,
  codes,
  errorReply,
  failureCode,
  idAsSent,
  invalidParams,
  invalidRequest,
  messageOf,
  methodNotFound,
  noCursor,
  type Params,
} from "./json-rpc.ts";
import { completion, getPrompt, promptMembers } from "./prompts.ts";
import { readResource } from "./resources.ts";
import { metaKeys } from "../mcp-revisions.ts";
import { statelessProblem } from "./stateless-checks.ts";
import { callTool } from "./stateless-tool-call.ts";

/** Lists change only with a reload. `private`: only holders of a key may read them. */
const cacheable = `"ttlMs":60000,"cacheScope":"private"`;

export function isStateless(message: unknown): boolean {
  if (!isObject(message) || !isObject(message["params"])) return false;
  const meta = message["params"]["_meta"];
  return isObject(meta) && metaKeys.version in meta;
}

export function answerStatelessMessage(
  call: McpCall,
  body: Params,
): Reply | Promise<Reply | undefined> {
  const message = messageOf(body, () => idAsSent(call.x.body, undefined));
  if (message.kind === "invalid") return errorReply(400, "null", invalidRequest);
  if (message.kind !== "request" || !isObject(message.params)) return accepted;
  const { id, method, params } = message;
  if (method === "tools/call") {
    const fault = statelessProblem(call.x.request.headers, method, params);
    return fault === undefined
      ? callTool(call, id, params)
      : reported(call, method, errorReply(400, id, fault));
  }
  const answer = answerTo(call, id, method, params);
  return answer instanceof Promise
    ? answer.then((late) => reported(call, method, late))
    : reported(call, method, answer);
}

function reported(call: McpCall, method: string, reply: Reply): Reply {
  reportMethod(call, method, failureCode(reply));
  return reply;
}

function answerTo(
  call: McpCall,
  id: string,
  method: string,
  params: Params,
): Reply | Promise<Reply> {
  const fault = statelessProblem(call.x.request.headers, method, params);
  if (fault !== undefined) return errorReply(400, id, fault);
  const { results } = call.server;
  const list = method === "server/discover" ? results.discover : results.byMethod.get(method);
  if (list === undefined) return otherMethod(call, id, method, params);
  if (params["cursor"] !== undefined) return errorReply(400, id, noCursor);
  return replyWith(call, id, completeResult(call, `${list},${cacheable}`));
}

async function otherMethod(
  call: McpCall,
  id: string,
  method: string,
  params: Params,
): Promise<Reply> {
  const { byMethod } = call.server.results;
  if (method === "resources/read" && byMethod.has("resources/list")) {
    const read = await readResource(call, params, codes.invalidParams);
    return replyWith(
      call,
      id,
      typeof read === "string" ? completeResult(call, `${read},${cacheable}`) : read,
    );
  }
  if (byMethod.has("prompts/list")) {
    if (method === "prompts/get") return replyWith(call, id, await prompt(call, params));
    if (method === "completion/complete") {
      const done = completion(call, params);
      return replyWith(call, id, typeof done === "string" ? completeResult(call, done) : done);
    }
  }
  return errorReply(404, id, methodNotFound);
}

async function prompt(call: McpCall, params: Params): Promise<string | RpcFailure> {
  const { dialogues } = call.server;
  const { name } = params;
  if (typeof name !== "string") return invalidParams("name must be a string");
  const statelessCall = { keyId: call.principal.key.id, method: "prompts/get", name };
  const read = dialogues.read(params, statelessCall);
  if ("code" in read) return read;
  const got = await getPrompt(call, params, read.dialogue);
  if (!("ok" in got) || got.ok || got.asks === undefined) {
    const members = promptMembers(got);
    return typeof members === "string" ? completeResult(call, members) : members;
  }
  const questions = dialogues.ask(got.asks, read.dialogue, statelessCall);
  return typeof questions === "string" ? inputRequiredResult(call, questions) : questions;
}

function replyWith(call: McpCall, id: string, result: string | RpcFailure): Reply {
  return typeof result === "string"
    ? answerReply(call, resultText(id, result))
    : errorReply(400, id, result);
}
