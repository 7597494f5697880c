import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import type { Clock } from "sluice-gateway/plugin";
import type { ChatRequest } from "./chat-request.ts";
import { tokensOf, type Echo } from "./echo.ts";
import type { ToolCall } from "./file-task.ts";

export interface Pace {
  readonly clock: Clock;
  readonly tokenMs: number;
}

/** The answer is sent at the time of its last token, unless the client has disconnected before that. */
export function sendWhole(response: ServerResponse, model: string, answer: Echo, pace: Pace): void {
  const { reasoning, content, toolCall, finishReason, usage } = answer;
  const message = {
    role: "assistant",
    content: toolCall === undefined ? content.join("") : null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
    ...(toolCall !== undefined && { tool_calls: [callMember(toolCall)] }),
  };
  const body = JSON.stringify({
    ...envelope("chat.completion", model, pace.clock),
    choices: [{ index: 0, message, finish_reason: finishReason }],
    usage,
  });
  const timer = pace.clock.after(pace.tokenMs * usage.completion_tokens, () => {
    const length = Buffer.byteLength(body);
    response
      .writeHead(200, { "content-type": "application/json", "content-length": length })
      .end(body);
  });
  response.once("close", () => timer[Symbol.dispose]());
}

/** The model waits for a client that does not read, and stops if the client disconnects. */
export function sendStream(
  response: ServerResponse,
  model: string,
  answer: Echo,
  { includeUsage }: Pick<ChatRequest, "includeUsage">,
  { clock, tokenMs }: Pace,
): void {
  const shared = envelope("chat.completion.chunk", model, clock);
  const events = eventsOf(answer, includeUsage, (choices, usage) => {
    // As with OpenAI, a request with `include_usage` gets `usage: null` in every chunk except the last.
    const rest = includeUsage ? { choices, usage } : { choices };
    return `data: ${JSON.stringify({ ...shared, ...rest })}\n\n`;
  });
  const sendNext = (): void => {
    if (response.writableNeedDrain) return;
    const { value, done } = events.next();
    if (done === true) response.end(value);
    else response.write(value);
  };
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  sendNext();
  const timer = clock.every(tokenMs, sendNext);
  response.once("close", () => timer[Symbol.dispose]());
}

type WriteEvent = (choices: readonly object[], usage: Echo["usage"] | null) => string;

function* eventsOf(
  { reasoning, content, toolCall, finishReason, usage }: Echo,
  includeUsage: boolean,
  write: WriteEvent,
): Generator<string, string, undefined> {
  const chunk = (delta: object, finish: string | null): string =>
    write([{ index: 0, delta, finish_reason: finish }], null);
  yield chunk({ role: "assistant", content: "" }, null);
  for (const token of reasoning) yield chunk({ reasoning_content: token }, null);
  for (const token of content) yield chunk({ content: token }, null);
  if (toolCall !== undefined) {
    yield chunk(
      { tool_calls: [{ index: 0, ...callMember({ ...toolCall, arguments: "" }) }] },
      null,
    );
    for (const token of tokensOf(toolCall.arguments)) {
      yield chunk({ tool_calls: [{ index: 0, function: { arguments: token } }] }, null);
    }
  }
  return chunk({}, finishReason) + (includeUsage ? write([], usage) : "") + "data: [DONE]\n\n";
}

function callMember({ name, arguments: text }: ToolCall): object {
  return { id: `call_${randomUUID()}`, type: "function", function: { name, arguments: text } };
}

function envelope(object: string, model: string, clock: Clock): object {
  const created = Math.floor(clock.now() / 1000);
  return { id: `chatcmpl-${randomUUID()}`, object, created, model };
}
