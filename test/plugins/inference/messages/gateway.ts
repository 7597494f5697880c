/** A gateway with a scripted worker, asked over the Messages API. */
import assert from "node:assert/strict";
import { hello } from "../networks/native-events.ts";
import {
  model,
  startChat,
  type Answer,
  type ChatGateway,
  type ChatOptions,
  type RequestOptions,
} from "../chat/gateway.ts";

/** Networks whose workers get translated requests, and those whose workers have the API themselves. */
export const networks = [
  ["translated", "passes: [tools, sampling, format, images, reasoning]"],
  ["native", "passes: [tools, sampling, format, images, reasoning], speaks: [messages]"],
] as const;

export const everything = "passes: [tools, sampling, format, images, reasoning]";

export interface MessagesGateway extends ChatGateway {
  create(members?: object, options?: RequestOptions): Promise<Answer>;
  events(members?: object, options?: RequestOptions): Promise<MessagesEvent[]>;
  // oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
  lastBody(): any;
}

// Tests read what they expect to be there, and fail where it is not.
// oxlint-disable-next-line typescript/no-explicit-any
export type MessagesEvent = Readonly<Record<string, any>>;

export async function startMessages(options: ChatOptions = {}): Promise<MessagesGateway> {
  const chat = await startChat({ network: everything, otherwise: hello, ...options });
  const create = (members: object = {}, ask: RequestOptions = {}): Promise<Answer> =>
    chat.send(messagesBody(members), { path: "/v1/messages", ...ask });
  return {
    ...chat,
    create,
    async events(members = {}, ask = {}) {
      const answer = await create({ stream: true, ...members }, ask);
      assert.equal(answer.status, 200, answer.text);
      return eventsOf(answer.text);
    },
    lastBody: () => chat.worker.received.at(-1)?.body,
  };
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
