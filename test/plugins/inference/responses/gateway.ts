/** A whole gateway with one scripted worker, for tests of the surface `responses`. */
import assert from "node:assert/strict";
import {
  model,
  networksFor,
  startApi,
  type ApiGateway,
  type ChatOptions,
} from "../chat/gateway.ts";
import { dataOf } from "../networks/chat-events.ts";

export const networks = networksFor("responses");

// oxlint-disable-next-line typescript/no-explicit-any -- as `Answer.json`
export type Event = any;

export type ResponsesGateway = ApiGateway<Event>;

export function startResponses(options: ChatOptions = {}): Promise<ResponsesGateway> {
  const bodyOf = (members: object): object => ({ model, input: "Hi", ...members });
  return startApi("/v1/responses", bodyOf, eventsOf, options);
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

export { streamedDeltas as deltas, wholeMessage as message } from "../networks/native-events.ts";
