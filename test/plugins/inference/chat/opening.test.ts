/** A streamed completion until its head has left: what may happen while a step is waited for. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AnswerReader, Charge, InferenceResult, Offer } from "sluice-gateway/services";
import { createCompletion } from "../../../../plugins/inference/chat/completion.ts";
import { complete } from "../../../../plugins/inference/chat/completion-reader.ts";
import { readChatRequest } from "../../../../plugins/inference/chat/request.ts";
import { StreamedCompletion } from "../../../../plugins/inference/chat/streamed-completion.ts";
import type { Exchange, Reply, Sink } from "../../../../src/plugin.ts";
import { chatBody } from "./gateway.ts";
import { fakeExchange } from "../../fakes.ts";

const choice = Buffer.from('{"index":0,"delta":{"content":"x"},"finish_reason":null}');
const produced: InferenceResult = {
  worker: {
    network: "n",
    id: "w",
    pricing: {
      network: "n",
      coefficient: 1000,
      pricePerTokenNano: "1",
      tokenUsdRate: "1",
      asOf: "2026-01-15T12:00:00Z",
    },
  },
  usage: {
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: undefined,
    reasoningTokens: undefined,
    estimated: true,
  },
  costMilli: 2,
  finishReason: undefined,
};

interface Scene {
  readonly x: Exchange;
  /** The events of worker, client and charge, in order. */
  readonly told: readonly string[];
  readonly answer: Promise<Reply | undefined>;
  /** The worker sends a token. */
  readonly says: () => void;
  readonly head: PromiseWithResolvers<Sink>;
  readonly sink: Sink;
}

function scene(): Scene {
  const told: string[] = [];
  const head = Promise.withResolvers<Sink>();
  const x: Exchange = {
    ...fakeExchange(),
    stream() {
      told.push("head");
      return head.promise;
    },
  };
  const charge: Charge = {
    reserve: () => undefined,
    settle: ([line]) => void told.push(`charge ${line?.costMilli} ${line?.outcome}`),
    open: () => ({ kind: "unavailable" }),
    usedMilli: undefined,
  };
  let reader: AnswerReader | undefined;
  const offer: Offer = {
    modelId: "Test/Model-1",
    activeWorkers: 1,
    maxOutputTokens: 1,
    mostMilli: () => 0,
    send(_, toTell) {
      reader = toTell;
      return {
        pause: () => void told.push("pause"),
        resume: () => void told.push("resume"),
        abort() {
          told.push("abort");
          return produced;
        },
        leave() {
          told.push("leave");
          return Promise.resolve(produced);
        },
      };
    },
  };
  const sink: Sink = {
    onDrain: undefined,
    write(chunk) {
      told.push(`write ${String(chunk).split("data: ").length - 1}`);
      return true;
    },
    end: () => Promise.resolve(),
    fail: (outcome) => void told.push(`fail ${outcome}`),
  };
  const reading = readChatRequest(chatBody({ stream: true }));
  assert.ok(reading.ok);
  const { body, ...request } = reading.request;
  const answer = complete(StreamedCompletion, createCompletion(x, request, charge), body, offer);
  return {
    x,
    told,
    answer,
    says() {
      reader?.onChoice(choice, 0, choice.length);
      reader?.onRead();
    },
    head,
    sink,
  };
}

describe("a stream whose head has not been sent", () => {
  it("stops its worker by backpressure, and then forwards the queued chunks together", async () => {
    const { told, says, head, sink, x } = scene();
    says();
    assert.deepEqual(told, ["head"]);
    says();
    assert.deepEqual(told, ["head", "pause"]);
    head.resolve(sink);
    await settled();
    assert.deepEqual(told, ["head", "pause", "write 2", "resume"]);
    x.onAbort?.aborted();
  });

  it("charges the produced tokens and writes nothing if the client leaves", async () => {
    const { told, says, head, sink, answer, x } = scene();
    says();
    x.onAbort?.aborted();
    head.resolve(sink);
    assert.equal(await answer, undefined);
    assert.deepEqual(told, ["head", "leave", "charge 2 clientLeft"]);
  });

  it("stops its worker if a step throws in responseHeaders", async () => {
    const { told, says, head, answer, x } = scene();
    says();
    head.reject(new Error("a step's bug"));
    await assert.rejects(answer, /a step's bug/);
    assert.deepEqual(told, ["head", "abort"]);
    assert.equal(x.onAbort, undefined);
  });
});

/** All that waits for promises that are settled has run. */
async function settled(): Promise<void> {
  await new Promise(setImmediate);
}
