/** Random answers of workers, cut at any byte: the response contains exactly what the model wrote. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InferenceResult } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import { chatApi } from "../../../../plugins/inference/chat/api.ts";
import { responseRenderer } from "../../../../plugins/inference/responses/renderer.ts";
import { createCompletion } from "../../../../plugins/inference/completions/completion.ts";
import type { AnswerRenderer, Completion } from "../../../../plugins/inference/completions/api.ts";
import { createReasoningSeal } from "../../../../plugins/inference/completions/sealed-reasoning.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { fakeExchange } from "../../fakes.ts";
import {
  forRandomAnswers,
  readJunk,
  readPieces,
  resultOf,
  type Part,
  type RandomAnswer,
} from "../completions/random-choices.ts";
import { assertEvents } from "./check-stream.ts";
import { eventsOf, model, type Event } from "./gateway.ts";

const seal = createReasoningSeal(createSeal("secret"));
const api = { ...chatApi, idPrefix: "resp_" };

test("3,000 random answers arrive whole and in order, streamed and in one piece", () => {
  forRandomAnswers(3_000, check);
});

function check(answer: RandomAnswer, random: Random): void {
  const renderer = rendererOf(random);
  const { events, result } = streamed(renderer, answer, random);
  const response = assertEvents(events);
  assert.deepEqual(partsOf(response.output), answer.parts);
  assert.equal(response.usage.input_tokens, answer.promptTokens);
  assert.equal(response.usage.output_tokens, answer.completionTokens);
  assert.equal(response.status, statusOf(answer));
  const whole = JSON.parse(renderer.whole(completion(), messageOf(answer), charged(result)));
  assert.equal(whole.status, response.status);
  for (const kind of ["reasoning", "text"]) {
    assert.equal(texts(kind, partsOf(whole.output)), texts(kind, answer.parts));
  }
  const calls = (parts: readonly Part[]): Part[] => parts.filter(({ kind }) => kind === "call");
  assert.deepEqual(calls(partsOf(whole.output)), calls(answer.parts));
}

function texts(kind: string, parts: readonly Part[]): string {
  return parts
    .flatMap((part) => (part.kind === kind && "text" in part ? [part.text] : []))
    .join("");
}

test("a stream that is cut ends with a failure and repeats what was complete", () => {
  forRandomAnswers(1_000, (answer, random) => {
    const stream = rendererOf(random).stream(completion());
    const cut = answer.stream.subarray(0, random.int(answer.stream.length));
    const { text } = readPieces(stream, cut, random);
    const error = { code: "UPSTREAM_ERROR", status: 503, message: "broken" } as const;
    const response = assertEvents(eventsOf(text + stream.failed(error, charged(resultOf(answer)))));
    assert.equal(response.status, "failed");
    assert.equal(response.error.code, "server_error");
    const whole = partsOf(response.output);
    assert.deepEqual(whole, answer.parts.slice(0, whole.length));
  });
});

test("choices of any shape never throw, and the response stays in order", () => {
  const seed = Date.now() | 0;
  const random = createRandom(seed);
  for (let count = 0; count < 5_000; count++) {
    const stream = rendererOf(random, new Set(random.int(2) === 0 ? ["edit"] : [])).stream(
      completion(),
    );
    let text = readJunk(stream, random);
    const finishReason = random.pick(["", "stop", "length", "x"]);
    const result = { ...resultOf({ promptTokens: 1, completionTokens: 1 }), finishReason };
    text += stream.end(charged(result));
    assert.doesNotThrow(() => assertEvents(eventsOf(text)), `seed ${seed}: ${text}`);
  }
});

/** `customTools`: names of tools whose input is a text. */
function rendererOf(random: Random, customTools: ReadonlySet<string> = new Set()): AnswerRenderer {
  return responseRenderer({
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
    customTools,
    seal: random.int(2) === 0 ? seal : undefined,
  });
}

function completion(): Completion {
  const x = fakeExchange();
  const request = { model, stream: true } as Completion["request"];
  const renderer = {} as Completion["renderer"];
  return createCompletion(
    { x, api, renderer, request, clock: systemClock },
    {} as Completion["charge"],
  );
}

function streamed(
  renderer: AnswerRenderer,
  answer: RandomAnswer,
  random: Random,
): { readonly events: Event[]; readonly result: InferenceResult } {
  const stream = renderer.stream(completion());
  const { text, reader } = readPieces(stream, answer.stream, random);
  const usage = reader.reported ?? assert.fail("no usage");
  const result = { ...resultOf(answer), usage, finishReason: reader.finishReason };
  return { events: eventsOf(text + stream.end(charged(result))), result };
}

function charged(result: InferenceResult): { result: InferenceResult; usedMilliCu: number } {
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

function statusOf({ finishReason }: RandomAnswer): string {
  return ["length", "content_filter"].includes(finishReason) ? "incomplete" : "completed";
}

/** Returns what the items of a response mean. */
function partsOf(output: readonly Event[]): Part[] {
  return output.map((item): Part => {
    if (item.type === "message") return { kind: "text", text: item.content[0].text };
    if (item.type === "reasoning") {
      const sealed = item.encrypted_content;
      if (sealed !== undefined) assert.equal(seal.open(sealed), wellFormed(item.content[0].text));
      return { kind: "reasoning", text: item.content[0].text };
    }
    return { kind: "call", id: item.call_id, name: item.name, arguments: item.arguments };
  });
}

function wellFormed(text: string): string {
  return text.toWellFormed();
}
