/**
 * `tools/call` of the revisions with `initialize`. Questions are asked during the call, on its own stream, if the
 * session declares that the client can answer. A call without a session cannot ask questions.
 */
import type { Dialogue, Questions, ToolOutcome } from "sluice-gateway/services";
import { reportStream, runTool, acceptsEvents, timestamp, type McpCall } from "./mcp-call.ts";
import { confirmationQuestion, userAnswerIn } from "./confirmation.ts";
import { missingCapabilities } from "./stateless-dialogue.ts";
import { EventStream } from "./event-stream.ts";
import { errorText, resultText, type RpcFailure } from "../json-rpc-texts.ts";
import { invalidParams, type Params } from "./json-rpc.ts";
import { logLevelOf } from "./log-levels.ts";
import type { Session } from "./sessions.ts";
import { toolResult, type ResultFrame } from "./tool-result.ts";

export interface ToolAnswer {
  readonly text: string;
  readonly outcome?: ToolOutcome;
  /** The protocol error, if no tool was called. */
  readonly failure?: RpcFailure;
  readonly events?: EventStream | undefined;
}

export function refusedAnswer(id: string, failure: RpcFailure): ToolAnswer {
  return { text: errorText(id, failure), failure };
}

/** Limits the questions, so that a tool cannot ask forever. */
const maxRounds = 8;

interface SessionCall {
  readonly call: McpCall;
  readonly id: string;
  readonly session: Session | undefined;
  readonly tool: string;
  readonly input: unknown;
  readonly meta: unknown;
  /** Undefined if nothing can be asked. */
  readonly capabilities: Dialogue["capabilities"] | undefined;
  events: EventStream | undefined;
}

/**
 * `tool` and `input`, the names of the plain protocol, are accepted as well. `single`: undefined for an item of an
 * array, which has no stream for progress and questions.
 */
export function callInSession(
  call: McpCall,
  id: string,
  params: Params,
  frame: ResultFrame,
  single: { readonly session: Session | undefined } | undefined,
): ToolAnswer | Promise<ToolAnswer> {
  const { tool: called, input: given = {}, name: tool = called, arguments: input = given } = params;
  const { _meta: meta } = params;
  if (typeof tool !== "string") {
    return refusedAnswer(id, invalidParams("name must be a string"));
  }
  const capabilities = acceptsEvents(call) ? single?.session?.capabilities : undefined;
  const session = single?.session;
  const events = single && reportStream(call, params, logLevelOf(session));
  const one: SessionCall = { call, id, session, tool, input, meta, capabilities, events };
  const outcome = call.server.writes.has(tool) ? runWrite(one) : runWithQuestions(one);
  return outcome instanceof Promise
    ? outcome.then((late) => toolAnswer(one, frame, late))
    : toolAnswer(one, frame, outcome);
}

function toolAnswer(
  { call, id, events }: SessionCall,
  frame: ResultFrame,
  outcome: ToolOutcome,
): ToolAnswer {
  const result = toolResult(outcome, frame, timestamp(call.server));
  return { text: resultText(id, result), outcome, events };
}

/** The client's user is asked to confirm; without an answer the client gets the token. */
async function runWrite(one: SessionCall): Promise<ToolOutcome> {
  const { call, tool, capabilities = {} } = one;
  const outcome = await runTool(call, one);
  const question = "elicitation" in capabilities ? confirmationQuestion(outcome) : undefined;
  if (question === undefined) return outcome;
  const answer = userAnswerIn(await ask(one, question.requests));
  if (answer === "confirmed") {
    return runTool(call, { ...one, confirmationToken: question.token });
  }
  if (answer !== "declined") return outcome;
  const { latencyMs } = outcome;
  const message = "the user declined";
  return { ok: false, code: "GATEWAY_PERMISSION_DENIED", message, tool, latencyMs };
}

/** The tool runs again with each round of answers; without answers, its last failure is the result. */
function runWithQuestions(one: SessionCall): ToolOutcome | Promise<ToolOutcome> {
  const { call, capabilities } = one;
  return capabilities === undefined ? runTool(call, one) : runRounds(one, capabilities);
}

async function runRounds(
  one: SessionCall,
  capabilities: Dialogue["capabilities"],
): Promise<ToolOutcome> {
  const { call } = one;
  let dialogue: Dialogue = { capabilities, answers: {}, state: undefined };
  for (let round = 0; ; round++) {
    const outcome = await runTool(call, { ...one, dialogue });
    if (outcome.ok || outcome.asks === undefined || round === maxRounds) return outcome;
    const { requests, state } = outcome.asks;
    if (missingCapabilities(requests, capabilities).length > 0) return outcome;
    const answers = await ask(one, requests);
    if (answers === undefined) return outcome;
    dialogue = { capabilities, answers, state };
  }
}

/** Undefined unless all questions are answered. */
async function ask(one: SessionCall, requests: Questions["requests"]): Promise<Params | undefined> {
  const { server, x, principal } = one.call;
  const events = (one.events ??= new EventStream(x, server.clock, {}));
  const asking = { keyId: principal.key.id, session: one.session?.id ?? "", request: one.id };
  const pending = Object.entries(requests).map(async ([name, { method, params }]) => {
    const send = (id: string): void => events.request(id, method, params);
    return [name, await server.sessionQuestions.ask(asking, x.signal, send)] as const;
  });
  const answers = await Promise.all(pending);
  return answers.some(([, answer]) => answer === undefined)
    ? undefined
    : Object.fromEntries(answers);
}
