/**
 * `tools/call` of the revisions with `initialize`. What has to be asked is asked in the middle of the call, on its own
 * stream, where the session says that the client can answer; a call without a session asks nothing.
 */
import type { Dialogue, Questions, ToolOutcome } from "sluice-gateway/plugin";
import { reportStream, runTool, acceptsEvents, timestamp, type McpCall } from "./mcp-call.ts";
import { confirmationQuestion, userAnswerIn } from "./confirmation.ts";
import { missingCapabilities } from "./stateless-dialogue.ts";
import { EventStream } from "./event-stream.ts";
import { errorText, invalidParams, resultText, type Params, type RpcFailure } from "./json-rpc.ts";
import { logLevelOf } from "./log-levels.ts";
import type { Session } from "./sessions.ts";
import { toolResult, type ResultFrame } from "./tool-result.ts";

/** The answer to one call; `events`: the stream it was asked, or reported, on. */
export interface ToolAnswer {
  readonly text: string;
  readonly outcome?: ToolOutcome;
  /** The protocol's own error, where no tool was called. */
  readonly failure?: RpcFailure;
  readonly events?: EventStream | undefined;
}

export function refused(id: string, failure: RpcFailure): ToolAnswer {
  return { text: errorText(id, failure), failure };
}

/** Rounds of questions in one call: a tool that asks for ever ends here. */
const maxRounds = 8;

/** A tool, its input and how its client is reached. */
interface SessionCall {
  readonly call: McpCall;
  /** The request's id, as JSON text. */
  readonly id: string;
  readonly session: Session | undefined;
  readonly tool: string;
  readonly input: unknown;
  readonly meta: unknown;
  /** Undefined: nothing can be asked. */
  readonly capabilities: Dialogue["capabilities"] | undefined;
  events: EventStream | undefined;
}

/**
 * `tool` and `input`, the names of the plain lane, are taken as well. `single`: undefined for an item of an array,
 * which has no stream for progress and questions.
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
    return refused(id, invalidParams("name must be a string"));
  }
  const capabilities = acceptsEvents(call) ? single?.session?.capabilities : undefined;
  const session = single?.session;
  const events = single && reportStream(call, params, logLevelOf(session));
  const one: SessionCall = { call, id, session, tool, input, meta, capabilities, events };
  const outcome = call.server.writes.has(tool) ? runWrite(one) : runAsking(one);
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
  const said = userAnswerIn(await ask(one, question.requests));
  if (said === "confirmed") {
    return runTool(call, { ...one, confirmationToken: question.token });
  }
  if (said !== "declined") return outcome;
  const { latencyMs } = outcome;
  const message = "the user declined";
  return { ok: false, code: "GATEWAY_PERMISSION_DENIED", message, tool, latencyMs };
}

/** Runs the tool anew with each round of answers; without them its last failure is the end. */
function runAsking(one: SessionCall): ToolOutcome | Promise<ToolOutcome> {
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

/** Asks all at once; undefined unless every one is answered. */
async function ask(one: SessionCall, requests: Questions["requests"]): Promise<Params | undefined> {
  const { server, x, principal } = one.call;
  const events = (one.events ??= new EventStream(x, server.clock, {}));
  const asking = { keyId: principal.key.id, session: one.session?.id ?? "", request: one.id };
  const asked = Object.entries(requests).map(async ([name, { method, params }]) => {
    const send = (id: string): void => events.request(id, method, params);
    return [name, await server.sessionQuestions.ask(asking, x.signal, send)] as const;
  });
  const answers = await Promise.all(asked);
  return answers.some(([, answer]) => answer === undefined)
    ? undefined
    : Object.fromEntries(answers);
}
