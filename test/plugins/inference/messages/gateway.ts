/** A gateway with a scripted worker, asked over the Messages API. */
import assert from "node:assert/strict";
import {
  model,
  networksFor,
  startApi,
  type ApiGateway,
  type ChatOptions,
} from "../chat/gateway.ts";

export const networks = networksFor("messages");

// Tests read what they expect to be there, and fail where it is not.
// oxlint-disable-next-line typescript/no-explicit-any
export type MessagesEvent = Readonly<Record<string, any>>;

export type MessagesGateway = ApiGateway<MessagesEvent>;

export function startMessages(options: ChatOptions = {}): Promise<MessagesGateway> {
  return startApi("/v1/messages", messagesBody, eventsOf, options);
}

export function messagesBody(members: object = {}): object {
  return { model, max_tokens: 100, messages: [{ role: "user", content: "Hi" }], ...members };
}

/** Parses the events of a stream. Each has two lines, and its name is its type. */
export function eventsOf(text: string): MessagesEvent[] {
  assert.ok(text.endsWith("\n\n"));
  return text
    .slice(0, -2)
    .split("\n\n")
    .map((event) => {
      const lines = event.split("\n");
      assert.equal(lines.length, 2, event);
      const [name = "", data = ""] = lines;
      const parsed = JSON.parse(data.slice("data: ".length)) as MessagesEvent;
      assert.equal(name, `event: ${parsed["type"]}`);
      return parsed;
    });
}

export { streamedDeltas as deltas, wholeMessage as message } from "../networks/native-events.ts";
