/** Events of the Messages API that all streams have. */
import type { Exchange } from "sluice-gateway/plugin";
import type { Completion } from "../completions/api.ts";
import { messageHead } from "./answer.ts";
import { errorJson } from "./errors.ts";

export function eventOf(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`;
}

/** Returns the first events of an answer. The usage is not known until the end. */
export function startEvents(completion: Completion): string {
  const usage = { input_tokens: 0, output_tokens: 0 };
  const empty = { content: [], stop_reason: null, stop_sequence: null, usage };
  const message = { ...messageHead(completion), ...empty };
  return eventOf("message_start", { message }) + eventOf("ping", {});
}

/** Returns the last event of an answer that failed. */
export function errorEvent(message: string, x: Exchange): string {
  return `event: error\ndata: ${errorJson("api_error", message, x)}\n\n`;
}
