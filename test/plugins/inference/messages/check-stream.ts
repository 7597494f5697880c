/** Reads a stream of the Messages API as its documentation describes it. It shares no code with the gateway. */
import assert from "node:assert/strict";
import type { MessagesEvent } from "./gateway.ts";

export interface StreamedBlock {
  readonly type: string;
  /** The text, the thinking, or the JSON of the input. */
  text: string;
  signature: string;
  readonly id?: string;
  readonly name?: string;
}

export interface ReadStream {
  readonly blocks: readonly StreamedBlock[];
  /** The members of `message_delta`. Undefined if the stream ends with an error. */
  readonly end: MessagesEvent | undefined;
  readonly error: MessagesEvent | undefined;
}

const memberOf: Readonly<Record<string, readonly [block: string, member: string]>> = {
  text_delta: ["text", "text"],
  thinking_delta: ["thinking", "thinking"],
  signature_delta: ["thinking", "signature"],
  input_json_delta: ["tool_use", "partial_json"],
};

/** Asserts the order: no gaps between blocks, one open at a time, a signature last, `message_stop` if complete. */
export function assertEvents(events: readonly MessagesEvent[]): ReadStream {
  const blocks: StreamedBlock[] = [];
  let isOpen = false;
  const [start, ping, ...others] = events;
  const rest = others.filter(({ type }) => type !== "ping");
  assert.equal(start?.["type"], "message_start");
  assert.deepEqual(start?.["message"].content, []);
  assert.equal(ping?.["type"], "ping");
  const last = rest.at(-1);
  const isComplete = last?.["type"] === "message_stop";
  assert.ok(isComplete || last?.["type"] === "error", "the last event");
  const tail = isComplete ? 2 : 1;
  for (const event of rest.slice(0, -tail)) {
    const { type, index, content_block: begun, delta } = event;
    if (type === "content_block_start") {
      assert.ok(!isOpen, "two blocks are open");
      assert.equal(index, blocks.length);
      const { id, name } = begun;
      blocks.push({ type: begun.type, text: "", signature: "", ...(id && { id, name }) });
      isOpen = true;
      continue;
    }
    assert.ok(isOpen, "no block is open");
    assert.equal(index, blocks.length - 1);
    const block = blocks.at(-1) ?? assert.fail();
    if (type === "content_block_stop") isOpen = false;
    else {
      assert.equal(type, "content_block_delta");
      const [of, member] = memberOf[delta.type] ?? assert.fail(delta.type);
      assert.equal(block.type, of);
      assert.equal(block.signature, "", "nothing follows a signature");
      if (member === "signature") block.signature = delta.signature;
      else block.text += delta[member];
    }
  }
  if (!isComplete) return { blocks, end: undefined, error: last };
  assert.ok(!isOpen, "a block is not closed");
  const end = rest.at(-2);
  assert.equal(end?.["type"], "message_delta");
  return { blocks, end, error: undefined };
}
