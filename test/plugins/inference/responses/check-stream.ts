/**
 * Checks the order of the events of a response, member by member, without any code of the surface. The rules are those
 * of OpenAI's streaming events and of Open Responses (openresponses/openresponses, schema/events.tsp).
 */
import assert from "node:assert/strict";
import type { Event } from "./gateway.ts";

/** All members that Open Responses requires (schema/components/schemas/ResponseResource.json, `required`). */
const required = [
  "id object created_at completed_at status incomplete_details model previous_response_id instructions output error",
  "tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs",
  "temperature reasoning user usage max_output_tokens max_tool_calls store background service_tier metadata",
  "safety_identifier prompt_cache_key",
].flatMap((line) => line.split(" "));

const mayBeNull = new Set(
  [
    "completed_at incomplete_details error instructions previous_response_id reasoning user",
    "max_output_tokens max_tool_calls safety_identifier prompt_cache_key usage",
  ].flatMap((line) => line.split(" ")),
);

export function assertResponse(response: Event): void {
  assert.equal(required.length, 32);
  for (const name of required) {
    assert.ok(Object.hasOwn(response, name), `${name} is missing`);
    if (!mayBeNull.has(name)) assert.notEqual(response[name], null, name);
  }
  assert.match(response.id, /^resp_/);
  assert.equal(response.object, "response");
  for (const name of ["top_p", "presence_penalty", "frequency_penalty", "temperature"]) {
    assert.equal(typeof response[name], "number", name);
  }
  for (const name of ["store", "background", "parallel_tool_calls"]) {
    assert.equal(typeof response[name], "boolean", name);
  }
  for (const name of ["created_at", "top_logprobs"])
    assert.ok(Number.isInteger(response[name]), name);
  assert.ok(Array.isArray(response.tools) && Array.isArray(response.output));
  assert.equal(typeof response.text.format.type, "string");
  assert.equal(typeof response.metadata, "object");
  if (response.status === "completed") assert.ok(response.completed_at >= response.created_at);
  else assert.equal(response.completed_at, null);
  if (response.status === "in_progress") return assert.equal(response.usage, null);
  assertUsage(response.usage);
}

function assertUsage(usage: Event): void {
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  assert.equal(input + output, total);
  assert.ok(Number.isInteger(usage.input_tokens_details.cached_tokens));
  assert.ok(Number.isInteger(usage.output_tokens_details.reasoning_tokens));
  assert.ok(Number.isInteger(usage.usedCUMilli));
}

const ends = ["response.completed", "response.incomplete", "response.failed"];

/** Checks a whole stream. Returns its last response. */
export function assertEvents(events: readonly Event[]): Event {
  const [created, inProgress, ...rest] = events;
  const last = rest.pop();
  assert.equal(created.type, "response.created");
  assert.equal(inProgress.type, "response.in_progress");
  for (const { response } of [created, inProgress]) {
    assertResponse(response);
    assert.deepEqual([response.status, response.output], ["in_progress", []]);
  }
  assert.ok(ends.includes(last.type), `the last event is ${last.type}`);
  const { response } = last;
  assertResponse(response);
  assert.equal(`response.${response.status}`, last.type);
  assert.equal(response.id, created.response.id);
  const items: Event[] = [];
  while (rest.length > 0) {
    const item = takeItem(rest, items.length, response.status === "failed");
    if (item !== undefined) items.push(item);
  }
  assert.deepEqual(response.output, items);
  const ids = items.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  return response;
}

/** Takes the events of one item. Returns it; undefined if a failure has cut it off. */
function takeItem(rest: Event[], index: number, canBreak: boolean): Event {
  const added = rest.shift();
  assert.equal(added.type, "response.output_item.added");
  assert.equal(added.output_index, index);
  const { id, type } = added.item;
  const isText = type === "message" || type === "reasoning";
  const isCut = (): boolean => canBreak && rest.length === 0;
  let partType = "";
  if (isText) {
    if (isCut()) return undefined;
    const part = rest.shift();
    partType = part.part.type;
    assert.equal(part.type, "response.content_part.added");
    assert.deepEqual([part.item_id, part.output_index, part.content_index], [id, index, 0]);
    assert.equal(textOf(part.part), "");
  }
  let text = "";
  const eventName = partType === "refusal" ? "refusal" : eventOfItem[type];
  for (;;) {
    const event = rest.shift();
    if (event === undefined) {
      assert.ok(canBreak, "an item is still open");
      return undefined;
    }
    assert.deepEqual([event.item_id, event.output_index], [id, index], event.type);
    assert.ok(event.type.startsWith(`response.${eventName}.`), event.type);
    if (event.type.endsWith(".delta")) {
      assert.notEqual(event.delta, "");
      text += event.delta;
      continue;
    }
    assert.equal(textOf(event), text);
    break;
  }
  if (isText) {
    if (isCut()) return undefined;
    const done = rest.shift();
    assert.equal(done.type, "response.content_part.done");
    assert.deepEqual([done.item_id, done.part.type], [id, partType]);
    assert.equal(textOf(done.part), text);
  }
  if (isCut()) return undefined;
  const done = rest.shift();
  assert.equal(done.type, "response.output_item.done");
  assert.equal(done.output_index, index);
  const { item } = done;
  assert.deepEqual([item.id, item.type], [id, type]);
  assert.equal(textOf(isText ? item.content[0] : item), text);
  return item;
}

function textOf({ text, refusal, arguments: called, input }: Event): unknown {
  return text ?? refusal ?? called ?? input;
}

const eventOfItem: Readonly<Record<string, string>> = {
  message: "output_text",
  reasoning: "reasoning_text",
  function_call: "function_call_arguments",
  custom_tool_call: "custom_tool_call_input",
};
