/** A whole gateway with one scripted worker, for tests of the surface `responses`. */
import assert from "node:assert/strict";
import {
  chatBody,
  model,
  startChat,
  type Answer,
  type ChatGateway,
  type ChatOptions,
  type RequestOptions,
} from "../chat/gateway.ts";
import { dataOf } from "../networks/chat-events.ts";
import { hello } from "../networks/native-events.ts";

/** Networks whose workers get translated requests, and those whose workers have the API themselves. */
export const networks = [
  ["translated", "passes: [tools, sampling, format, logprobs, images, reasoning]"],
  ["native", "passes: [tools, sampling, format, logprobs, images, reasoning], speaks: [responses]"],
] as const;

export const everything = "passes: [tools, sampling, format, logprobs, images, reasoning]";

// oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
export type Event = any;

export interface ResponsesGateway extends ChatGateway {
  create(members?: object, options?: RequestOptions): Promise<Answer>;
  /** Returns the events of a streamed response. Their numbers must be 0, 1, 2 … */
  events(members?: object, options?: RequestOptions): Promise<Event[]>;
}

export async function startResponses(options: ChatOptions = {}): Promise<ResponsesGateway> {
  const chat = await startChat({ network: everything, otherwise: hello, ...options });
  const create: ResponsesGateway["create"] = (members = {}, ask = {}) =>
    chat.send({ model, input: "Hi", ...members }, { path: "/v1/responses", ...ask });
  return Object.assign(chat, {
    create,
    async events(members: object = {}, ask: RequestOptions = {}) {
      const answer = await create({ stream: true, ...members }, ask);
      assert.equal(answer.status, 200, answer.text);
      return eventsOf(answer.text);
    },
  });
}

/** Parses a stream. The name of each event must be its type. */
export function eventsOf(text: string): Event[] {
  const names = text.split("\n").filter((line) => line.startsWith("event: "));
  const events = dataOf(text).map((data): Event => JSON.parse(data));
  assert.equal(names.length, events.length);
  for (const [index, event] of events.entries()) {
    assert.equal(`event: ${event.type}`, names[index]);
    assert.equal(event.sequence_number, index);
  }
  return events;
}

export function callDelta(
  index: number,
  text: string,
  begin?: { id: string; name: string },
): object {
  const called = { arguments: text, ...(begin && { name: begin.name }) };
  return {
    tool_calls: [{ index, ...(begin && { id: begin.id, type: "function" }), function: called }],
  };
}

export { chatBody, model };

export { streamedDeltas as deltas, wholeMessage as message } from "../networks/native-events.ts";
