/**
 * One chat completion by a worker's enclave, in a session of its own in which the gateway is the client. The token
 * counts are those of the worker's signed report.
 */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type {
  AttemptedCall,
  AttemptedWorker,
  RunningAttempt,
  TokenUsage,
} from "sluice-gateway/services";
import { guarded, isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { clientKeys } from "../protocol/handshake.ts";
import { requestPieces, type Channel } from "../protocol/channel.ts";
import { isFault, type Fault, type StreamCode } from "../protocol/fault.ts";
import { createNodeChannel } from "../protocol/node-channel.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import {
  sessionExpectation,
  verifyUsageReport,
  type ReportExpectation,
} from "../protocol/verify-usage-report.ts";
import type { UsageReport } from "../protocol/usage-report.ts";
import type { LinkListener } from "../confidential-relay/link.ts";
import type { OpenEnclave, OpenFailure } from "../confidential-relay/open-enclave.ts";
import type { Ephemeral } from "../protocol/suite.ts";
import type { Hello } from "../protocol/hello.ts";
import { countsOf, readTextFrame, type ReportFrame } from "../protocol/text-frames.ts";
import type { EnclaveDeps } from "./enclave-state.ts";
import { AnswerBuilder } from "./answer-builder.ts";

export interface OwnSession extends OpenEnclave {
  readonly hello: Hello;
  readonly ephemeral: Ephemeral;
}

export interface OwnSessions {
  readonly deps: EnclaveDeps;
  readonly url: string;
  openOwn(model: string, maxOutputTokens: number): Promise<OwnSession | OpenFailure>;
}

const rid = 1;
const noData = new Uint8Array(0);

export class EnclaveAttempt implements RunningAttempt, LinkListener {
  readonly worker: AttemptedWorker;
  finishReason: string | undefined = undefined;
  readonly #call: AttemptedCall;
  readonly #sessions: OwnSessions;
  #session: OwnSession | undefined;
  #channel: Channel | undefined;
  #unsent: Uint8Array[] = [];
  #deadline: Disposable | undefined;
  #report: UsageReport | undefined;
  readonly #answer: AnswerBuilder;
  #paused = false;
  #hasEnded = false;

  constructor(call: AttemptedCall, worker: AttemptedWorker, sessions: OwnSessions) {
    this.#call = call;
    this.#answer = new AnswerBuilder(call);
    this.worker = worker;
    this.#sessions = sessions;
  }

  get produced(): RunningAttempt["produced"] {
    return this.#answer.produced;
  }

  get reported(): TokenUsage | undefined {
    if (this.#report === undefined) return undefined;
    return { ...countsOf(this.#report.tokens), estimated: false };
  }

  begin(): void {
    this.worker.load.add(1);
    this.#open().catch((error: unknown) => {
      this.#sessions.deps.log.error({ err: error }, "a session with a worker could not be opened");
      this.#fail({ kind: "internal" });
    });
  }

  pause(): void {
    this.#paused = true;
    this.#session?.link.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#session?.link.resume();
  }

  get hasRequest(): boolean {
    return this.#channel !== undefined && this.#unsent.length === 0;
  }

  /** Cancels the answer. The enclave then signs a report of the tokens produced so far. */
  wrapUp(): void {
    this.resume();
    if (this.finishReason !== undefined) return;
    const frame = this.#channel?.seal("cancel", rid, noData);
    if (frame !== undefined && !isFault(frame)) this.#session?.link.binary(frame);
  }

  abort(): void {
    this.#end();
  }

  async #open(): Promise<void> {
    const { request, modelId, network } = this.#call;
    const maxOutputTokens = request.maxTokens ?? network.config.maxOutputTokens;
    const session = await this.#sessions.openOwn(modelId, maxOutputTokens);
    if (isFault(session)) return this.#fail(failureOf(session));
    if (this.#hasEnded) return session.link.close();
    const keys = await clientKeys(nodeSuite, session.ephemeral, session.attested);
    if (isFault(keys)) {
      session.link.close();
      return this.#fail({ kind: "garbage" });
    }
    const { th } = session.attested;
    const channel = createNodeChannel({ end: "client", keys, th, pad: session.hello.pad });
    this.#session = session;
    this.#channel = channel;
    if (this.#paused) session.link.pause();
    const pieces = requestPieces(request.body);
    for (const [index, piece] of pieces.entries()) {
      const frame = channel.seal("request", rid, piece, index === pieces.length - 1);
      if (isFault(frame)) return this.#fail({ kind: "status", status: 413 });
      this.#unsent.push(frame);
    }
    this.#restartTimeout();
    session.link.listener = this;
    this.onDrain();
  }

  // An exception in a callback of the link ends this attempt and not the process.

  readonly onDrain = this.#guarded(() => this.#sendFrames());
  readonly onBinary = this.#guarded((frame: Buffer) => this.#readFrame(frame));
  readonly onText = this.#guarded((frame: Buffer) => this.#readReport(frame));
  readonly onEnd = this.#guarded(() => this.#fail({ kind: "closed" }));

  #guarded<Args extends readonly unknown[]>(run: (...args: Args) => void): (...args: Args) => void {
    return guarded(run, (error) => {
      this.#sessions.deps.log.error({ err: error }, "an answer of a worker's enclave failed");
      this.#fail({ kind: "internal" });
    });
  }

  readonly #onTimeout = this.#guarded(() => {
    if (this.#paused) this.#restartTimeout();
    else this.#fail({ kind: "answerTimeout", timeoutMs: this.#timeoutMs });
  });

  #sendFrames(): void {
    const link = this.#session?.link;
    for (let frame = this.#unsent.shift(); frame !== undefined; frame = this.#unsent.shift()) {
      if (link?.binary(frame) === false) return;
    }
  }

  #readFrame(frame: Buffer): void {
    const opened = this.#channel?.open(frame);
    if (opened === undefined || this.#hasEnded) return;
    if (isFault(opened)) return this.#fail({ kind: "garbage" });
    this.#restartTimeout();
    const { buffer, byteOffset, length } = opened.data;
    const text = Buffer.from(buffer, byteOffset, length).toString();
    const value = parseOrUndefined(text);
    if (!isObject(value)) return this.#fail({ kind: "garbage" });
    if (opened.header.type !== "chunk") return this.#onFinal(value);
    if (!this.#answer.add(value, text)) this.#fail({ kind: "tooLarge" });
  }

  #readReport(frame: Buffer): void {
    const read = readTextFrame(frame);
    if (isFault(read) || read.kind === "attestation" || read.kind === "done") {
      return this.#fail({ kind: "garbage" });
    }
    if (read.kind === "error") {
      return this.#fail({
        kind: read.code === "TIMEOUT" ? "answerTimeout" : "unusable",
        code: read.code,
      });
    }
    this.#verify(read).catch((error: unknown) => {
      this.#sessions.deps.log.error({ err: error }, "a usage report could not be verified");
      this.#fail({ kind: "internal" });
    });
  }

  /** The `error` of a final is for end-to-end clients; the gateway replies with its own error. */
  #onFinal({ finish_reason: finishReason, error }: Readonly<Record<string, unknown>>): void {
    if (error !== undefined || typeof finishReason !== "string") {
      return this.#fail({ kind: "unusable" });
    }
    this.finishReason = finishReason;
    this.#answer.finish(finishReason);
  }

  async #verify({ rid: reported, report, sig }: ReportFrame): Promise<void> {
    const session = this.#session;
    if (session === undefined || reported !== rid || this.finishReason === undefined) {
      return this.#fail({ kind: "garbage" });
    }
    const { attested, hello, evidence } = session;
    const { clock, counters, log } = this.#sessions.deps;
    const { notAfter } = attested.keyset;
    const account = {
      ...sessionExpectation(attested, hello),
      evidence: evidence.assurance === "simulated" ? "simulated" : "accepted",
      now: Math.floor(clock.now() / 1000),
      exchange: this.#channel?.watch.take(rid),
      claimCounter: (digest, ctr) => counters.claim(digest, ctr, notAfter),
    } satisfies ReportExpectation;
    const verdict = await verifyUsageReport(nodeSuite, { report, sig }, account);
    const { verified, unverifiedReason } = verdict;
    if (!verified && unverifiedReason !== "simulated") {
      const about = { network: hello.network, worker: this.worker.id, reason: unverifiedReason };
      log.warn(about, "a worker's usage report could not be verified; the answer counts as failed");
      return this.#fail({ kind: "unusable" });
    }
    this.#report = verdict.report;
    this.#complete();
  }

  #complete(): void {
    if (this.#hasEnded) return;
    const message = this.#answer.whole();
    if (message === "nameless") return this.#fail({ kind: "garbage" });
    this.#end();
    this.worker.succeeded();
    this.#call.onEnd(message);
  }

  #fail(failure: UpstreamFailure): void {
    if (this.#hasEnded) return;
    this.#end();
    const { url } = this.#sessions;
    this.#call.onError(this.worker, { cause: { ...failure, address: new URL(url).host } });
  }

  #end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.worker.load.add(-1);
    this.#deadline?.[Symbol.dispose]();
    this.#session?.link.close();
  }

  #restartTimeout(): void {
    this.#deadline?.[Symbol.dispose]();
    if (this.#hasEnded) return;
    this.#deadline = this.#sessions.deps.clock.after(this.#timeoutMs, this.#onTimeout);
  }

  get #timeoutMs(): number {
    const { request, network } = this.#call;
    const { idleMs, answerMs } = network.config;
    return request.streamed ? idleMs : answerMs;
  }
}

const statusOf: Partial<Record<StreamCode, number>> = {
  MODEL_NOT_AVAILABLE: 404,
  NETWORK_NOT_AVAILABLE: 404,
  LIMIT_EXCEEDED: 413,
  RATE_LIMITED: 429,
};

function failureOf({ code }: Fault): UpstreamFailure {
  const status = statusOf[code];
  if (status !== undefined) return { kind: "status", status, code };
  return { kind: code === "TIMEOUT" ? "answerTimeout" : "refused", code };
}
