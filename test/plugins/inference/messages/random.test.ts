/** Random answers of workers, cut at any byte: the message contains exactly what the model wrote. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { InferenceResult } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import { wholeMessage, type Rendering } from "../../../../plugins/inference/messages/answer.ts";
import { MessagesStream } from "../../../../plugins/inference/messages/stream.ts";
import type { Charged, Completion } from "../../../../plugins/inference/completions/api.ts";
import { createReasoningSeal } from "../../../../plugins/inference/completions/sealed-reasoning.ts";
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
import { assertEvents, type StreamedBlock } from "./check-stream.ts";
import { model } from "../chat/gateway.ts";
import { eventsOf } from "./gateway.ts";

const seal = createReasoningSeal(createSeal("secret"));

test("3,000 random answers arrive whole and in order, streamed and in one piece", () => {
  forRandomAnswers(3_000, check);
});

function check(answer: RandomAnswer, random: Random): void {
  const rendering = renderingOf(random);
  const stream = new MessagesStream(completion, rendering);
  const { text, reader } = readPieces(stream, answer.stream, random);
  const usage = reader.reported ?? assert.fail("no usage");
  const charged = chargedFor({ ...resultOf(answer), usage, finishReason: reader.finishReason });
  const { blocks, end } = assertEvents(eventsOf(text + stream.end(charged)));
  const expected = merged(
    answer.parts.filter(({ kind }) => kind !== "reasoning" || rendering.thinking !== "none"),
  );
  assert.deepEqual(
    blocks.map((block) => partOf(block, rendering)),
    expected,
  );
  assert.equal(end?.["delta"].stop_reason, stopReasonOf(answer));
  assert.equal(end?.["usage"].input_tokens, answer.promptTokens);
  assert.equal(end?.["usage"].output_tokens, answer.completionTokens);
  const whole = JSON.parse(wholeMessage(rendering)(completion, messageOf(answer), charged));
  assert.equal(whole.stop_reason, stopReasonOf(answer));
  assert.deepEqual(
    whole.content.filter(({ type }: { type: string }) => type === "tool_use"),
    answer.parts.flatMap((part) =>
      part.kind === "call"
        ? [{ type: "tool_use", id: part.id, name: part.name, input: JSON.parse(part.arguments) }]
        : [],
    ),
  );
  const inWhole = whole.content.find(({ type }: { type: string }) => type === "text")?.text ?? "";
  assert.equal(inWhole, texts("text", answer));
}

test("a stream that is cut ends with an error, and what came before is the beginning of the answer", () => {
  forRandomAnswers(1_000, (answer, random) => {
    const stream = new MessagesStream(completion, { thinking: "shown", seal });
    const cut = answer.stream.subarray(0, random.int(answer.stream.length));
    const { text } = readPieces(stream, cut, random);
    const error = { code: "UPSTREAM_ERROR", status: 503, message: "broken" } as const;
    const read = assertEvents(eventsOf(text + stream.failed(error)));
    assert.equal(read.error?.["error"].type, "api_error");
    const parts = read.blocks.map((block) => partOf(block, { thinking: "shown", seal }, true));
    assert.deepEqual(parts.slice(0, -1), answer.parts.slice(0, Math.max(parts.length - 1, 0)));
  });
});

test("choices of any shape never throw, and the events stay in order", () => {
  const seed = Date.now() | 0;
  const random = createRandom(seed);
  for (let count = 0; count < 5_000; count++) {
    const stream = new MessagesStream(completion, renderingOf(random));
    let text = readJunk(stream, random);
    const finishReason = random.pick(["", "stop", "length", "x"]);
    const result = { ...resultOf({ promptTokens: 1, completionTokens: 1 }), finishReason };
    text += stream.end(chargedFor(result));
    assert.doesNotThrow(() => assertEvents(eventsOf(text)), `seed ${seed}: ${text}`);
  }
});

const completion = {
  x: fakeExchange(),
  id: "msg_1",
  request: { model, stream: true },
} as unknown as Completion;

function renderingOf(random: Random): Rendering {
  return { thinking: random.pick(["none", "sealed", "shown"] as const), seal };
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

/** Returns what a block means. Sealed reasoning is opened. */
function partOf(
  { type, text, signature, id = "", name = "" }: StreamedBlock,
  { thinking }: Rendering,
  isCut = false,
): Part {
  if (type === "text") return { kind: "text", text };
  if (type === "tool_use") return { kind: "call", id, name, arguments: text };
  if (thinking === "shown") {
    assert.ok(isCut || signature !== "");
    return { kind: "reasoning", text };
  }
  assert.equal(text, "");
  return { kind: "reasoning", text: seal.open(signature) ?? assert.fail("not sealed") };
}

function chargedFor(result: InferenceResult): Charged {
  return { result, usedMilliCu: 1 };
}

function texts(kind: "text" | "reasoning", { parts }: RandomAnswer): string {
  return parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join("");
}

function messageOf(answer: RandomAnswer): Parameters<ReturnType<typeof wholeMessage>>[1] {
  return {
    content: texts("text", answer),
    reasoningContent: texts("reasoning", answer),
    toolCalls: answer.parts.flatMap((part) => (part.kind === "call" ? [part] : [])),
    logprobs: undefined,
  };
}

function stopReasonOf({ finishReason }: RandomAnswer): string {
  const reasons = {
    stop: "end_turn",
    length: "max_tokens",
    tool_calls: "tool_use",
    content_filter: "refusal",
  };
  return reasons[finishReason];
}
