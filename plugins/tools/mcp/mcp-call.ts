import { randomUUID } from "node:crypto";
import {
  refuse,
  type Clock,
  type Exchange,
  type Host,
  type Reply,
  type TraceSpan,
} from "sluice-gateway/plugin";
import type {
  Charge,
  Dialogue,
  KeyPrincipal,
  LogLevel,
  Resource,
  ToolCaller,
  ToolOutcome,
  Tools,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { StatelessDialogues } from "./stateless-dialogue.ts";
import { EventStream, eventText } from "./event-stream.ts";
import { jsonHeaders, type Params } from "./json-rpc.ts";
import type { PrecomputedResults } from "./precomputed-results.ts";
import type { SessionQuestions } from "./session-questions.ts";
import type { Sessions } from "./sessions.ts";

export interface McpServer {
  readonly host: Pick<Host, "log" | "memory" | "store">;
  readonly clock: Clock;
  readonly tools: Tools;
  readonly sessions: Sessions;
  readonly dialogues: StatelessDialogues;
  readonly sessionQuestions: SessionQuestions;
  readonly results: PrecomputedResults;
  readonly resources: ReadonlyMap<string, Resource>;
  /** Names of the tools that ask for confirmation. */
  readonly writes: ReadonlySet<string>;
}

export interface McpCall {
  readonly server: McpServer;
  readonly x: Exchange;
  readonly principal: KeyPrincipal;
  readonly charge: Charge;
}

interface ToolCall {
  /** `_meta` of the message. It may contain the trace of the client's own span (SEP-414). */
  readonly meta?: unknown;
  readonly tool: string;
  readonly input: unknown;
  readonly confirmationToken?: string | undefined;
  readonly events?: EventStream | undefined;
  readonly dialogue?: Dialogue | undefined;
}

export function logFailure(
  { server, x }: McpCall,
  error: unknown,
  about: object,
  message: string,
): void {
  server.host.log.error({ err: error, ...about, requestId: x.peek("requestId") }, message);
}

export function runTool(call: McpCall, wanted: ToolCall): ToolOutcome | Promise<ToolOutcome> {
  const { x, principal, charge, server } = call;
  const { events } = wanted;
  const caller: ToolCaller = {
    principal,
    charge,
    requestId: x.peek("requestId") ?? randomUUID(),
    signal: x,
    confirmationToken: wanted.confirmationToken,
    dialogue: wanted.dialogue,
    trace: traceOf(x, wanted.meta),
    calls: x,
    ...(events !== undefined && {
      progress: (done: number, total?: number, message?: string) =>
        events.progress(done, total, message),
      log: (level: LogLevel, data: unknown) => events.log(wanted.tool, level, data),
    }),
  };
  return server.tools.call(wanted.tool, wanted.input, caller);
}

/** Known methods except lists. A method that the deployment does not offer only returns an error. */
const methods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "logging/setLevel",
  "server/discover",
  "tools/call",
  "resources/read",
  "prompts/get",
  "completion/complete",
]);

/** `code`: the reason for the refusal; undefined if the request was answered. */
export function reportMethod({ server, x }: McpCall, method: string, code?: string): void {
  const isListed = methods.has(method) || server.results.byMethod.has(method);
  x.called({ kind: "protocol", name: method, isListed, code });
}

function traceOf(x: Exchange, meta: unknown): TraceSpan | undefined {
  const trace = x.peek("trace");
  return trace !== undefined && isObject(meta) ? trace.within(meta) : trace;
}

/**
 * Undefined unless the client accepts events and has sent a progress token or has set a log level. `level`: the lowest
 * level to send.
 */
export function reportStream(
  call: McpCall,
  params: Params,
  level: LogLevel | undefined,
): EventStream | undefined {
  const meta = params["_meta"];
  const given = isObject(meta) ? meta["progressToken"] : undefined;
  const isToken = typeof given === "string" || typeof given === "number";
  if ((!isToken && level === undefined) || !acceptsEvents(call)) return undefined;
  const token = isToken ? JSON.stringify(given) : undefined;
  return new EventStream(call.x, call.server.clock, { token, level });
}

export function acceptsEvents({ x }: McpCall): boolean {
  return x.request.headers.accept?.includes("text/event-stream") === true;
}

export function sendAnswer(
  call: McpCall,
  events: EventStream | undefined,
  answer: string,
): Reply | Promise<undefined> {
  return events === undefined || !events.opened ? answerReply(call, answer) : events.end(answer);
}

/** The answer is sent as an event if the client accepts nothing else, which is rare. */
export function answerReply(call: McpCall, body: string, more: readonly string[] = []): Reply {
  return acceptsOnlyEvents(call.x.request.headers.accept)
    ? {
        status: 200,
        headers: ["content-type", "text/event-stream", "cache-control", "no-store", ...more],
        body: eventText(body),
      }
    : { status: 200, headers: more.length === 0 ? jsonHeaders : [...jsonHeaders, ...more], body };
}

function acceptsOnlyEvents(accept: string | undefined): boolean {
  if (accept === undefined || !accept.includes("text/event-stream")) return false;
  if (accept.includes("application/json")) return false;
  return !/application\/(json|\*)|\*\/\*/i.test(accept);
}

/** decisions.md section 4: every HTTP surface answers 429 with the canonical envelope at a credit limit. */
export function creditRefusal(outcome: ToolOutcome): Reply | undefined {
  if (outcome.ok || outcome.code !== "GATEWAY_CU_LIMIT_EXCEEDED") return undefined;
  const { code, details } = outcome;
  return refuse(code, details === undefined ? {} : { details });
}

/** Formatting a timestamp takes 1 µs, and under load dozens of answers are sent per millisecond. */
let lastTimestamp = { now: Number.NaN, text: "" };

export function timestamp({ clock }: McpServer): string {
  const now = clock.now();
  if (now !== lastTimestamp.now) lastTimestamp = { now, text: new Date(now).toISOString() };
  return lastTimestamp.text;
}

/** `members`: those of a result of revision 2026-07-28, as JSON text. */
export function completeResult({ server }: McpCall, members: string): string {
  return `{"resultType":"complete",${members},"_meta":{${server.results.server}}}`;
}

export function inputRequiredResult({ server }: McpCall, members: string): string {
  return `{"resultType":"input_required",${members},"_meta":{${server.results.server}}}`;
}

/** The limit is the same as for a tool (decisions.md section 6). */
const timeoutMs = 30_000;

export async function withTimeLimit<T>(clock: Clock, begun: T | Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  using _timer = clock.after(timeoutMs, () => late.reject(new Error("no answer within 30 s")));
  return await Promise.race([begun, late.promise]);
}
