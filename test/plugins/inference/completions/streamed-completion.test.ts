/** Tests of the state machine of a streamed completion: until its head is sent, and at the end of each turn. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AnswerReader, Charge, Offer } from "sluice-gateway/services";
import { chatApi } from "../../../../plugins/inference/chat/api.ts";
import { createCompletion } from "../../../../plugins/inference/completions/completion.ts";
import {
  atEndOfTurn,
  StreamedCompletion,
  type TurnWriter,
} from "../../../../plugins/inference/completions/streamed-completion.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import type { Exchange, Reply, Sink } from "../../../../src/plugin.ts";
import { chatBody } from "../chat/gateway.ts";
import { fakeExchange } from "../../fakes.ts";
import { resultOf } from "./random-choices.ts";

const choice = Buffer.from('{"index":0,"delta":{"content":"x"},"finish_reason":null}');
const produced = { ...resultOf({ promptTokens: 1, completionTokens: 1 }), costMilliCu: 2 };

interface Scene {
  readonly x: Exchange;
  readonly events: readonly string[];
  readonly answer: Promise<Reply | undefined>;
  readonly says: () => void;
  readonly head: PromiseWithResolvers<Sink>;
  readonly sink: Sink;
}

function scene(): Scene {
  const events: string[] = [];
  const head = Promise.withResolvers<Sink>();
  const x: Exchange = {
    ...fakeExchange(),
    dropBody() {},
    stream() {
      events.push("head");
      return head.promise;
    },
  };
  const charge = {
    settle: ([line]: Parameters<Charge["settle"]>[0]) =>
      void events.push(`charge ${line?.costMilliCu} ${line?.outcome}`),
  } as unknown as Charge;
  let reader: AnswerReader | undefined;
  const call = {
    pause: () => events.push("pause"),
    resume: () => events.push("resume"),
    abort: () => (events.push("abort"), produced),
    abortWithUsage: async () => (events.push("leave"), produced),
  };
  // Only the members that a completion uses.
  const offer = {
    send: (_: unknown, toTell: AnswerReader) => ((reader = toTell), call),
  } as unknown as Offer;
  const sink: Sink = {
    onDrain: undefined,
    write(chunk) {
      events.push(`write ${String(chunk).split("data: ").length - 1}`);
      return true;
    },
    end: () => Promise.resolve(),
    fail: (outcome) => void events.push(`fail ${outcome}`),
  };
  const asked: Readonly<Record<string, unknown>> = { ...chatBody({ stream: true }) };
  const { request: read, renderer } = chatApi.read(asked, undefined, x);
  const { body, ...rest } = read;
  const request = { ...rest, session: undefined };
  const parts = { x, api: chatApi, renderer, request, clock: systemClock };
  const completion = createCompletion(parts, charge);
  const answer = new Promise<Reply | undefined>((resolve, reject) => {
    new StreamedCompletion(completion, resolve, reject).begin(body, offer);
  });
  return {
    x,
    events,
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
    const { events, says, head, sink, x } = scene();
    says();
    assert.deepEqual(events, ["head"]);
    says();
    assert.deepEqual(events, ["head", "pause"]);
    head.resolve(sink);
    await settled();
    assert.deepEqual(events, ["head", "pause", "write 2", "resume"]);
    x.onAbort?.aborted();
  });

  it("charges the produced tokens and writes nothing if the client leaves", async () => {
    const { events, says, head, sink, answer, x } = scene();
    says();
    x.onAbort?.aborted();
    head.resolve(sink);
    assert.equal(await answer, undefined);
    assert.deepEqual(events, ["head", "leave", "charge 2 clientLeft"]);
  });

  it("stops its worker if a step throws in responseHeaders", async () => {
    const { events, says, head, answer, x } = scene();
    says();
    head.reject(new Error("a step's bug"));
    await assert.rejects(answer, /a step's bug/);
    assert.deepEqual(events, ["head", "abort"]);
    assert.equal(x.onAbort, undefined);
  });
});

function unexpected(error: unknown): void {
  assert.fail(String(error));
}

describe("at the end of a turn of the event loop", () => {
  it("writers are notified in order, once per call, after everything else", async () => {
    const written: string[] = [];
    const writer = (name: string): TurnWriter => ({
      onTurnEnd: () => written.push(name),
      fail: unexpected,
    });
    const one = writer("one");
    atEndOfTurn(one);
    atEndOfTurn(writer("other"));
    await Promise.resolve();
    assert.deepEqual(written, []);
    await settled();
    assert.deepEqual(written, ["one", "other"]);
    atEndOfTurn(one);
    await settled();
    assert.deepEqual(written, ["one", "other", "one"]);
  });

  it("a writer that is added while others are notified is notified, too", async () => {
    const written: string[] = [];
    const late: TurnWriter = { onTurnEnd: () => written.push("late"), fail: unexpected };
    atEndOfTurn({ onTurnEnd: () => atEndOfTurn(late), fail: unexpected });
    await settled();
    assert.deepEqual(written, ["late"]);
    atEndOfTurn(late);
    await settled();
    assert.deepEqual(written, ["late", "late"]);
  });

  it("a writer that throws gets its error, and the others are still notified", async () => {
    const written: string[] = [];
    const broken: TurnWriter = {
      onTurnEnd() {
        throw new Error("a bug");
      },
      fail: (error) => void written.push(String(error)),
    };
    atEndOfTurn(broken);
    atEndOfTurn({ onTurnEnd: () => written.push("other"), fail: unexpected });
    await settled();
    assert.deepEqual(written, ["Error: a bug", "other"]);
    atEndOfTurn({ onTurnEnd: () => written.push("later"), fail: unexpected });
    await settled();
    assert.equal(written.at(-1), "later");
  });
});

/** Everything that waits for settled promises has run. */
async function settled(): Promise<void> {
  await new Promise(setImmediate);
}
