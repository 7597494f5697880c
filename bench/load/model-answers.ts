/**
 * The events of mock-model.ts in the three APIs. An answer is a text, or a call of a tool whose arguments are tokens.
 */
import type { Api } from "./chat-client.ts";

export interface AnswerEvents {
  readonly opening: string;
  readonly token: string;
  /** The first and the last token of a call, which make its arguments JSON. Equal to `token` in a text. */
  readonly first: string;
  readonly last: string;
  readonly end: string;
}

const model = "Bench/Echo-1";
const word = " token";
const chunk = `"id":"chatcmpl-0b7c1d5e-6a55-4b3e-9d0c-0d7a3f1c9e42","object":"chat.completion.chunk","created":1767225600,"model":"${model}"`;

/** Returns one event as one chunk of HTTP. */
export function framed(data: string, name?: string): string {
  const event = `${name === undefined ? "" : `event: ${name}\n`}data: ${data}\n\n`;
  return `${event.length.toString(16)}\r\n${event}\r\n`;
}

export function textToken(content: string): string {
  return framed(
    `{${chunk},"choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]}`,
  );
}

/** `hasUsage`: whether the end of chat completions reports the tokens. */
export function answerEvents(
  api: Api,
  tokens: number,
  isCall: boolean,
  hasUsage: boolean,
): AnswerEvents {
  const [before, after] = isCall ? ['{"text":"', '"}'] : [word, word];
  const whole = before + word.repeat(Math.max(0, tokens - 2)) + after;
  const parts = { chat, responses, messages }[api](whole, tokens, isCall, hasUsage);
  const { token, ...rest } = parts;
  return { ...rest, token: token(word), first: token(before), last: token(after) };
}

interface Parts {
  readonly opening: string;
  readonly token: (text: string) => string;
  readonly end: string;
}

const prompt = 12;

function chat(_whole: string, tokens: number, isCall: boolean, hasUsage: boolean): Parts {
  const choice = (delta: object, finish_reason: string | null = null): string =>
    framed(`{${chunk},"choices":${JSON.stringify([{ index: 0, delta, finish_reason }])}}`);
  const begin = { id: "call_1", type: "function", function: { name: "edit", arguments: "" } };
  const usage = { prompt_tokens: prompt, completion_tokens: tokens, total_tokens: prompt + tokens };
  return {
    opening: isCall
      ? choice({ role: "assistant", content: null, tool_calls: [{ index: 0, ...begin }] })
      : "",
    token: (text) =>
      isCall
        ? choice({ tool_calls: [{ index: 0, function: { arguments: text } }] })
        : textToken(text),
    end:
      choice({}, isCall ? "tool_calls" : "stop") +
      (hasUsage ? framed(`{${chunk},"choices":[],"usage":${JSON.stringify(usage)}}`) : "") +
      framed("[DONE]"),
  };
}

function named(type: string, members: object): string {
  return framed(JSON.stringify({ type, ...members }), type);
}

function responses(whole: string, tokens: number, isCall: boolean): Parts {
  let sequence = 0;
  const event = (type: string, members: object): string =>
    named(`response.${type}`, { sequence_number: sequence++, ...members });
  const id = isCall ? "fc_1" : "msg_1";
  const place = { item_id: id, output_index: 0, ...(!isCall && { content_index: 0 }) };
  const part = { type: "output_text", text: whole, annotations: [], logprobs: [] };
  const item = (status: string, text: string) =>
    isCall
      ? { id, type: "function_call", status, call_id: "call_1", name: "edit", arguments: text }
      : {
          id,
          type: "message",
          status,
          role: "assistant",
          content: text === "" ? [] : [part],
        };
  const response = (status: string, more: object) => ({
    response: {
      id: "resp_1",
      object: "response",
      created_at: 1_767_225_600,
      status,
      model,
      ...more,
    },
  });
  const begun = response("in_progress", { output: [] });
  const kind = isCall ? "function_call_arguments" : "output_text";
  const usage = {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt + tokens,
  };
  const output = [item("completed", whole)];
  return {
    opening:
      event("created", begun) +
      event("in_progress", begun) +
      event("output_item.added", { output_index: 0, item: item("in_progress", "") }) +
      (isCall ? "" : event("content_part.added", { ...place, part: { ...part, text: "" } })),
    // All tokens are the same bytes, so they have one number.
    token: (delta) => event(`${kind}.delta`, { ...place, delta }),
    end:
      event(`${kind}.done`, { ...place, [isCall ? "arguments" : "text"]: whole }) +
      (isCall ? "" : event("content_part.done", { ...place, part })) +
      event("output_item.done", { output_index: 0, item: output[0] }) +
      event("completed", response("completed", { output, usage })),
  };
}

function messages(_whole: string, tokens: number, isCall: boolean): Parts {
  const block = isCall
    ? { type: "tool_use", id: "call_1", name: "edit", input: {} }
    : { type: "text", text: "" };
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: prompt, output_tokens: 1 },
  };
  return {
    opening:
      named("message_start", { message }) +
      named("content_block_start", { index: 0, content_block: block }),
    token: (text) =>
      named("content_block_delta", {
        index: 0,
        delta: isCall
          ? { type: "input_json_delta", partial_json: text }
          : { type: "text_delta", text },
      }),
    end:
      named("content_block_stop", { index: 0 }) +
      named("message_delta", {
        delta: { stop_reason: isCall ? "tool_use" : "end_turn", stop_sequence: null },
        usage: { output_tokens: tokens },
      }) +
      named("message_stop", {}),
  };
}
