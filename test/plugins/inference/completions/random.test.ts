/**
 * Random answers of workers, cut at any byte: responses and messages contain exactly what the model wrote. And
 * reasoning that clients keep for the gateway and cannot read or change.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InferenceResult } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import { chatApi } from "../../../../plugins/inference/chat/api.ts";
import type {
  AnswerRenderer,
  Charged,
  Completion,
} from "../../../../plugins/inference/completions/api.ts";
import { createCompletion } from "../../../../plugins/inference/completions/completion.ts";
import {
  createReasoningSeal,
  maxReasoningBytes,
} from "../../../../plugins/inference/completions/sealed-reasoning.ts";
import { wholeMessage, type Rendering } from "../../../../plugins/inference/messages/answer.ts";
import { MessagesStream } from "../../../../plugins/inference/messages/stream.ts";
import { responseRenderer } from "../../../../plugins/inference/responses/renderer.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { fakeExchange } from "../../fakes.ts";
import { model } from "../chat/gateway.ts";
import { assertEvents as assertMessage, type StreamedBlock } from "../messages/check-stream.ts";
import { eventsOf as messageEventsOf } from "../messages/gateway.ts";
import { assertEvents as assertStream, assertResponse } from "../responses/check-stream.ts";
import { eventsOf as responseEventsOf, type Event } from "../responses/gateway.ts";
import {
  forRandomAnswers,
  readJunk,
  readPieces,
  resultOf,
  type Part,
  type RandomAnswer,
} from "./random-choices.ts";

const seal = createReasoningSeal(createSeal("secret"));
const error = { code: "UPSTREAM_ERROR", status: 503, message: "broken" } as const;

interface Rendered {
  readonly parts: readonly Part[];
  /** Undefined if the stream has failed. */
  readonly finishReason?: string | undefined;
  readonly tokens?: readonly [input: number, output: number];
}

interface Api {
  stream(): ReturnType<AnswerRenderer["stream"]>;
  /** Checks the order of all events, and returns their meaning. */
  readStream(text: string): Rendered;
  whole(answer: RandomAnswer, charged: Charged): Rendered;
  expected(parts: readonly Part[]): readonly Part[];
  /** Finish reasons that the API does not distinguish from another one. */
  readonly unknown: Readonly<Record<string, string>>;
}

const apis: Readonly<Record<string, (random: Random, customTools?: readonly string[]) => Api>> = {
  responses: responsesApi,
  messages: messagesApi,
};

for (const [name, apiWith] of Object.entries(apis)) {
  test(`3,000 random answers arrive whole and in order over ${name}, streamed and in one piece`, () => {
    forRandomAnswers(3_000, (answer, random) => {
      const api = apiWith(random);
      const stream = api.stream();
      const { text, reader } = readPieces(stream, answer.stream, random);
      const usage = reader.reported ?? assert.fail("no usage");
      const { finishReason } = reader;
      const charged = chargedFor({ ...resultOf(answer), usage, finishReason });
      const { parts, ...rest } = api.readStream(text + stream.end(charged));
      const end = api.unknown[answer.finishReason] ?? answer.finishReason;
      assert.deepEqual(parts, api.expected(answer.parts));
      const tokens = [answer.promptTokens, answer.completionTokens];
      assert.deepEqual(rest, { finishReason: end, tokens });
      const whole = api.whole(answer, charged);
      assert.equal(whole.finishReason, end);
      const shown = api.expected(answer.parts);
      for (const kind of ["reasoning", "text"]) {
        assert.equal(texts(kind, whole.parts), texts(kind, shown), kind);
      }
      assert.deepEqual(whole.parts.filter(isCall), shown.filter(isCall));
    });
  });

  test(`a stream over ${name} that is cut ends with a failure, after the beginning of the answer`, () => {
    forRandomAnswers(1_000, (answer, random) => {
      const api = apiWith(random);
      const stream = api.stream();
      const cut = answer.stream.subarray(0, random.int(answer.stream.length));
      const { text } = readPieces(stream, cut, random);
      const charged = chargedFor(resultOf(answer));
      const { parts, finishReason } = api.readStream(text + stream.failed(error, charged));
      assert.equal(finishReason, undefined);
      // Messages show the beginning of the last part, too.
      const complete = name === "messages" ? Math.max(parts.length - 1, 0) : parts.length;
      assert.deepEqual(parts.slice(0, complete), api.expected(answer.parts).slice(0, complete));
    });
  });

  test(`choices of any shape never throw, and the events of ${name} stay in order`, () => {
    const seed = Date.now() | 0;
    const random = createRandom(seed);
    for (let count = 0; count < 5_000; count++) {
      const api = apiWith(random, random.int(2) === 0 ? ["edit"] : []);
      const stream = api.stream();
      let text = readJunk(stream, random);
      const finishReason = random.pick(["", "stop", "length", "x"]);
      const result = { ...resultOf({ promptTokens: 1, completionTokens: 1 }), finishReason };
      text += stream.end(chargedFor(result));
      assert.doesNotThrow(() => api.readStream(text), `seed ${seed}: ${text}`);
    }
  });
}

/** `customTools`: names of tools whose input is a text. */
function responsesApi(random: Random, customTools: readonly string[] = []): Api {
  const renderer = responseRenderer({
    repeated: JSON.stringify({
      instructions: null,
      tools: [],
      tool_choice: "auto",
      parallel_tool_calls: true,
      text: { format: { type: "text" } },
      temperature: 1,
      top_p: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      top_logprobs: 0,
      reasoning: null,
      max_output_tokens: null,
      metadata: {},
      prompt_cache_key: null,
    }),
    customTools: new Set(customTools),
    seal: random.int(2) === 0 ? seal : undefined,
  });
  const request = { model, stream: true } as Completion["request"];
  const api = { ...chatApi, idPrefix: "resp_" };
  const parts = { x: fakeExchange(), api, renderer, request, clock: systemClock };
  const completion = createCompletion(parts, {} as Completion["charge"]);
  const read = ({ output, usage, status, incomplete_details: details }: Event): Rendered => {
    const parts_ = output.map(partOfItem);
    if (status === "failed") return { parts: parts_ };
    const reasons: Readonly<Record<string, string>> = { max_output_tokens: "length" };
    const finishReason =
      status === "completed" ? "stop" : (reasons[details.reason] ?? details.reason);
    return { parts: parts_, finishReason, tokens: [usage.input_tokens, usage.output_tokens] };
  };
  return {
    stream: () => renderer.stream(completion),
    readStream: (text) => read(assertStream(responseEventsOf(text))),
    whole(answer, charged) {
      const response: Event = JSON.parse(renderer.whole(completion, messageOf(answer), charged));
      assertResponse(response);
      return read(response);
    },
    expected: (parts_) => parts_,
    unknown: { tool_calls: "stop" },
  };
}

function partOfItem(item: Event): Part {
  if (item.type === "message") return { kind: "text", text: item.content[0].text };
  if (item.type === "reasoning") {
    const [{ text }] = item.content;
    const sealed = item.encrypted_content;
    if (sealed !== undefined) assert.equal(seal.open(sealed), text.toWellFormed());
    return { kind: "reasoning", text };
  }
  return { kind: "call", id: item.call_id, name: item.name, arguments: item.arguments };
}

function messagesApi(random: Random): Api {
  const rendering: Rendering = { thinking: random.pick(["none", "sealed", "shown"]), seal };
  const request = { model, stream: true };
  const completion = { x: fakeExchange(), id: "msg_1", request } as unknown as Completion;
  const reasons: Readonly<Record<string, string>> = {
    end_turn: "stop",
    max_tokens: "length",
    tool_use: "tool_calls",
    refusal: "content_filter",
  };
  return {
    stream: () => new MessagesStream(completion, rendering),
    readStream(text) {
      const { blocks, end, error: failed } = assertMessage(messageEventsOf(text));
      const parts = blocks.map((block) => partOfBlock(block, rendering, end === undefined));
      if (end === undefined) assert.equal(failed?.["error"].type, "api_error");
      if (end === undefined) return { parts };
      const { delta, usage } = end as Event;
      const tokens = [usage.input_tokens, usage.output_tokens] as const;
      return { parts, finishReason: reasons[delta.stop_reason], tokens };
    },
    whole(answer, charged) {
      const json: Event = JSON.parse(
        wholeMessage(rendering)(completion, messageOf(answer), charged),
      );
      const blocks: Event[] = json.content;
      const parts = blocks.map((block) => {
        const text = block.text ?? block.thinking ?? JSON.stringify(block.input);
        return partOfBlock({ signature: "", ...block, text }, rendering);
      });
      return { parts, finishReason: reasons[json.stop_reason] };
    },
    expected: (parts) =>
      merged(parts.filter(({ kind }) => kind !== "reasoning" || rendering.thinking !== "none")),
    unknown: {},
  };
}

/** Returns what a block of a message means. Sealed reasoning is opened. */
function partOfBlock(
  { type, text, signature, id = "", name = "" }: StreamedBlock,
  { thinking }: Rendering,
  isCut = false,
): Part {
  if (type === "text") return { kind: "text", text };
  if (type === "tool_use") return { kind: "call", id, name, arguments: text };
  // The last block of a stream that is cut has no signature.
  assert.ok(isCut || signature !== "");
  if (thinking === "shown" || signature === "") return { kind: "reasoning", text };
  assert.equal(text, "");
  return { kind: "reasoning", text: seal.open(signature) ?? assert.fail("not sealed") };
}

/** Without the reasoning between them, two texts are one block. */
function merged(parts: readonly Part[]): Part[] {
  const result: Part[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (last !== undefined && last.kind !== "call" && last.kind === part.kind) {
      result[result.length - 1] = { kind: last.kind, text: last.text + part.text };
    } else result.push(part);
  }
  return result;
}

function isCall({ kind }: Part): boolean {
  return kind === "call";
}

function texts(kind: string, parts: readonly Part[]): string {
  return parts
    .flatMap((part) => (part.kind === kind && "text" in part ? [part.text] : []))
    .join("");
}

function chargedFor(result: InferenceResult): Charged {
  return { result, usedMilliCu: 1 };
}

function messageOf({ parts }: RandomAnswer): Parameters<AnswerRenderer["whole"]>[1] {
  return {
    content: texts("text", parts),
    reasoningContent: texts("reasoning", parts),
    toolCalls: parts.flatMap((part) => (part.kind === "call" ? [part] : [])),
    logprobs: undefined,
  };
}

test("sealed reasoning can be opened with the same secret, and shows nothing of its text", () => {
  const text = "Ünder the file is a.txt";
  const sealed = seal.seal(text) ?? "";
  assert.equal(createReasoningSeal(createSeal("secret")).open(sealed), text);
  assert.ok(!Buffer.from(sealed, "base64").includes("a.txt"));
  assert.notEqual(seal.seal(text), sealed);
});

test("another secret, a changed byte and foreign texts are not opened", () => {
  const sealed = seal.seal("thought") ?? "";
  assert.equal(createReasoningSeal(createSeal("other")).open(sealed), undefined);
  const bytes = Buffer.from(sealed, "base64");
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.equal(seal.open(changed.toString("base64")), undefined, `byte ${at}`);
  }
  for (const foreign of ["", "gAAAAAB", "%%%", "AQ==", "a".repeat(1_000_000)]) {
    assert.equal(seal.open(foreign), undefined);
  }
});

test("reasoning up to 64 KiB is sealed, and nothing longer", () => {
  const longest = "x".repeat(maxReasoningBytes);
  assert.equal(seal.open(seal.seal(longest) ?? ""), longest);
  assert.equal(seal.seal(`${longest}x`), undefined);
  assert.equal(seal.seal(""), undefined);
});
