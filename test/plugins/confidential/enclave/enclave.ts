/** An enclave in the test's process. The test controls its model and its clock. */
import type {
  AnswerReader,
  InferenceRequest,
  InferenceResult,
  Offer,
  TokenUsage,
} from "sluice-gateway/services";
import {
  createEnclaveIdentity,
  type EnclaveIdentity,
} from "../../../../plugins/confidential/enclave/identity.ts";
import {
  EnclaveSession,
  type EnclaveSessionDeps,
} from "../../../../plugins/confidential/enclave/session.ts";
import type { EvidenceProvider } from "../../../../plugins/confidential/evidence/provider.ts";
import { createSimulatedProvider } from "../../../../plugins/confidential/evidence/open-provider.ts";
import { keepingLog } from "../../../../src/testing/keeping-log.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import {
  connect,
  eventQueue,
  net,
  type ClientOptions,
  type TestClient,
  type Wire,
} from "./client.ts";

export interface Asked {
  readonly request: InferenceRequest;
  readonly params: Readonly<Record<string, unknown>>;
  /** One delta with this content, or these members. */
  say(delta: string | object): void;
  end(finishReason?: string, usage?: Partial<TokenUsage>): void;
  readonly reader: AnswerReader;
  readonly isAborted: boolean;
}

export interface FakeModel {
  readonly offer: Offer;
  readonly asked: readonly Asked[];
  /** The result of an abort. Undefined if nothing was produced. */
  produced: InferenceResult | undefined;
  activeWorkers: number;
}

export function resultOf(usage: Partial<TokenUsage> = {}, finishReason?: string): InferenceResult {
  return {
    worker: {
      network: net,
      id: "w1",
      pricing: {
        network: net,
        coefficient: 1500,
        pricePerTokenNano: "0",
        tokenUsdRate: undefined,
        asOf: "2026-01-01T00:00:00Z",
      },
    },
    usage: {
      promptTokens: 5,
      completionTokens: 3,
      cachedTokens: undefined,
      reasoningTokens: undefined,
      estimated: false,
      ...usage,
    },
    costMilliCu: 0,
    finishReason,
  };
}

export function fakeModel(modelId = "Demo/Echo-1"): FakeModel {
  const asked: Asked[] = [];
  const model: FakeModel = {
    asked,
    produced: undefined,
    activeWorkers: 1,
    offer: {
      modelId,
      network: "test",
      get activeWorkers() {
        return model.activeWorkers;
      },
      maxOutputTokens: 100,
      prompt: { passes: [], imageTokens: 1, contextTokens: undefined },
      speaks: [],
      usesSessions: false,
      maxMilliCu: () => 0,
      send(request, reader) {
        let isAborted = false;
        asked.push({
          request,
          params: JSON.parse(request.body.toString()) as Record<string, unknown>,
          reader,
          say(said) {
            const delta = typeof said === "string" ? { content: said } : said;
            const bytes = Buffer.from(JSON.stringify({ index: 0, delta, finish_reason: null }));
            reader.onChoice(bytes, 0, bytes.length);
            reader.onRead();
          },
          end: (finishReason = "stop", usage = {}) =>
            reader.onEnd(resultOf(usage, finishReason), undefined),
          get isAborted() {
            return isAborted;
          },
        });
        return {
          pause() {},
          resume() {},
          abort() {
            isAborted = true;
            return model.produced;
          },
          abortWithUsage() {
            isAborted = true;
            return Promise.resolve(model.produced);
          },
        };
      },
    },
  };
  return model;
}

export interface TestEnclave {
  readonly clock: ManualClock;
  readonly identity: EnclaveIdentity;
  readonly provider: EvidenceProvider;
  readonly model: FakeModel;
  /** Seconds since 1970. */
  readonly now: number;
  readonly lines: readonly string[];
  open(parts?: Partial<EnclaveSessionDeps>): OpenedSession;
  connect(
    options?: Partial<ClientOptions>,
    parts?: Partial<EnclaveSessionDeps>,
  ): Promise<Connected>;
}

export interface OpenedSession extends Wire {
  readonly session: EnclaveSession;
  readonly sent: number;
}

export interface Connected {
  readonly wire: OpenedSession;
  readonly client: TestClient;
}

export async function startEnclave(role: "worker" | "gateway" = "worker"): Promise<TestEnclave> {
  const clock = manualClock();
  const lines: string[] = [];
  const log = keepingLog(lines);
  const provider = await createSimulatedProvider(new Uint8Array(32).fill(1), clock);
  const identity = createEnclaveIdentity({ net, role, provider, clock, log });
  await identity.ready;
  const model = fakeModel();
  const enclave: TestEnclave = {
    clock,
    identity,
    provider,
    model,
    lines,
    get now() {
      return Math.floor(clock.now() / 1000);
    },
    open(parts = {}) {
      const queue = eventQueue();
      let sent = 0;
      const find = (id: string): Offer | undefined =>
        id === model.offer.modelId ? model.offer : undefined;
      let isClosed = false;
      const session = new EnclaveSession(
        { identity, find, clock, log, ...parts },
        {
          text(text) {
            mustBeOpen(isClosed);
            queue.put({ kind: "text", text });
          },
          binary(frame) {
            mustBeOpen(isClosed);
            sent++;
            // The frame is the receiver's own.
            queue.put({ kind: "binary", frame: Uint8Array.from(frame) });
            return true;
          },
          close(code, error) {
            mustBeOpen(isClosed);
            isClosed = true;
            queue.put({ kind: "closed", code, error: error?.code });
          },
        },
      );
      const wire: OpenedSession = {
        session,
        get sent() {
          return sent;
        },
        text: (bytes) => session.text(bytes),
        binary: (frame) => session.binary(frame),
        next: () => queue.next(),
      };
      return wire;
    },
    async connect(options = {}, parts = {}) {
      const wire = enclave.open(parts);
      const client = await connect(wire, { now: enclave.now, ...options });
      return { wire, client };
    },
  };
  return enclave;
}

/** Fails the test directly, because a session catches the exceptions of its peer. */
function mustBeOpen(isClosed: boolean): void {
  if (!isClosed) return;
  const error = new Error("the session sent or closed after its close");
  process.nextTick(() => {
    throw error;
  });
}
