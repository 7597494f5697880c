/**
 * The enclave's end of one session, independent of the transport. Decrypted data is passed only to the model, and
 * answers are sent only in encrypted form. Neither appears in a log or an error.
 */
import { ArrivalRate, type HeldBytes } from "sluice-gateway/internal/http";
import type { Clock, Log } from "sluice-gateway/plugin";
import { guarded } from "sluice-gateway/internal/toolkit";
import type { OpenedFrame } from "../protocol/channel.ts";
import { closeCodes, fault, isFault, plainCloseCodes } from "../protocol/fault.ts";
import type { Fault, StreamCode } from "../protocol/fault.ts";
import { readHello, type Hello } from "../protocol/hello.ts";
import { SessionTimers } from "../protocol/session-timers.ts";
import { readCancelFrame, writeReportFrame } from "../protocol/text-frames.ts";
import { cancelled, EnclaveAnswer, refused, type AnswerOutcome } from "./answer.ts";
import { readChatRequest } from "./chat-request.ts";
import { establish, isServed, checkHello } from "./handshake.ts";
import type { EstablishedSession, EnclaveHandshakeDeps } from "./handshake.ts";
import { createRequestBuffer, type RequestBuffer } from "./request-buffer.ts";
import { summarize, type Summary } from "./summary.ts";

export interface EnclaveSessionDeps extends EnclaveHandshakeDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** Accounts for the memory of a request until the model answers. */
  readonly hold?: () => HeldBytes;
}

export interface EnclavePeer {
  text(frame: string): void;
  /** Returns false if no more frames should be sent until `onDrain` is called. */
  binary(frame: Buffer): boolean;
  /** Called once. Nothing is sent afterwards. `error`: for the error frame that must be sent before closing. */
  close(code: number, error?: { readonly code: StreamCode; readonly message: string }): void;
}

/** Minimum time between the last report and the end of its keyset, after which verifiers refuse the report. */
const reportMarginMs = 10_000;

export class EnclaveSession {
  readonly #deps: EnclaveSessionDeps;
  readonly #peer: EnclavePeer;
  /** `broken`: frames are not encrypted or decrypted, but a report may still have to be sent. */
  #state: "hello" | "answering" | "open" | "broken" | "closed" = "hello";
  #established: EstablishedSession | undefined;
  readonly #arriving: RequestBuffer;
  #answer: EnclaveAnswer | undefined;
  #reporting = 0;
  #isStopping = false;
  /** The fault with which the session ends when no request is running. */
  #ending: Fault | undefined;
  readonly #timers: SessionTimers;
  #rate: ArrivalRate | undefined;
  readonly #leaving = new AbortController();

  constructor(deps: EnclaveSessionDeps, peer: EnclavePeer) {
    this.#deps = deps;
    this.#peer = peer;
    this.#arriving = createRequestBuffer(deps.hold?.());
    const ends = (code: StreamCode, message: string): (() => void) =>
      this.#guarded(() => this.#fail(fault(code, message)));
    this.#timers = new SessionTimers(deps.clock, {
      handshakeTimeout: ends("TIMEOUT", "the handshake took too long"),
      idleTimeout: ends("TIMEOUT", "the session was idle for too long"),
      // While the model is silent, only the model's own timeout applies.
      isSilenceExpected: () => this.#answer !== undefined,
      requestTimeout: ends("TIMEOUT", "the request did not arrive completely in time"),
      sessionTimeout: this.#guarded(() => this.#expire()),
    });
  }

  #guarded<Args extends readonly unknown[]>(run: (...args: Args) => void): (...args: Args) => void {
    return guarded(run, (error) => this.#onException(error));
  }

  /** The model that is answering. Undefined if no request is running. */
  get answering(): string | undefined {
    return this.#answer === undefined ? undefined : this.#established?.hello.model;
  }

  readonly text = this.#guarded((bytes: Uint8Array) => this.#text(bytes));
  /** `frame`: not kept after the call. */
  readonly binary = this.#guarded((frame: Uint8Array) => this.#binary(frame));
  readonly onDrain = this.#guarded(() => this.#answer?.resume());
  /** Call when the peer has disconnected. */
  readonly abort = this.#guarded(() => this.#end());
  /** Closes the session after the running request has been answered. */
  readonly stop = this.#guarded(() => this.#stop());

  #text(bytes: Uint8Array): void {
    if (this.#hasEnded()) return;
    if (this.#state !== "hello") return this.#laterText(bytes);
    const hello = readHello(bytes);
    if (isFault(hello)) return this.#fail(hello);
    const refusal = checkHello(hello, this.#deps);
    if (refusal !== undefined) return this.#fail(refusal);
    this.#state = "answering";
    this.#shakeHands(Uint8Array.from(bytes), hello).catch((error: unknown) =>
      this.#onException(error),
    );
  }

  /** After `hello`, only a cancel is allowed: a relay ends answers without a reader with it. */
  #laterText(bytes: Uint8Array): void {
    const rid = readCancelFrame(bytes);
    if (rid === undefined) return this.#fail(fault("BAD_FRAME", "a text frame after hello"));
    if (rid === this.#established?.channel.watch.rid()) this.#answer?.cancel();
  }

  #binary(frame: Uint8Array): void {
    if (this.#hasEnded()) return;
    const opened =
      this.#established === undefined
        ? fault("BAD_FRAME", "a frame before the handshake")
        : this.#established.channel.open(frame);
    if (isFault(opened)) return this.#breakOff(opened);
    this.#timers.onFrame();
    if (opened.header.type === "cancel") this.#cancel(opened.header.rid);
    else this.#collect(opened);
  }

  #stop(): void {
    if (this.#state === "closed" || this.#isStopping) return;
    this.#isStopping = true;
    if (this.#state !== "open") return this.#close(plainCloseCodes.overloaded);
    this.#endIfIdle();
  }

  async #shakeHands(bytes: Uint8Array, hello: Hello): Promise<void> {
    const established = await establish(bytes, hello, this.#deps, this.#leaving.signal);
    if (isFault(established)) return this.#fail(established);
    // The peer may have disconnected, or the session may have been stopped.
    if (this.#isClosed()) return;
    this.#established = established;
    this.#state = "open";
    this.#timers.begin(established.keyset.notAfter * 1000 - reportMarginMs);
    this.#peer.text(established.attestation);
  }

  #collect({ header, data }: OpenedFrame): void {
    if (!this.#arriving.append(data)) {
      return this.#breakOff(fault("RATE_LIMITED", "incomplete requests use too much memory"));
    }
    if (header.isEnd) {
      this.#endArrival();
      return this.#run(header.rid, this.#arriving.take());
    }
    this.#timers.onRequestFrame();
    this.#rate ??= new ArrivalRate(
      this.#deps.clock,
      this.#guarded(() => this.#fail(fault("TIMEOUT", "the request arrives too slowly"))),
    );
    this.#rate.add(data.length);
  }

  #endArrival(): void {
    this.#timers.onRequestEnd();
    this.#rate?.[Symbol.dispose]();
    this.#rate = undefined;
  }

  #run(rid: number, bytes: Uint8Array): void {
    const { find, clock } = this.#deps;
    const hello = this.#established?.hello;
    if (hello === undefined) return;
    const request = readChatRequest(bytes, hello);
    if ("code" in request) return this.#finish(rid, refused(request));
    const offer = find(hello.model);
    if (!isServed(offer)) return this.#finish(rid, refused(notServed));
    this.#answer = new EnclaveAnswer(offer, request, {
      clock,
      send: this.#guarded((data: Uint8Array) => {
        this.#arriving.release();
        this.#send("chunk", rid, data);
      }),
      onEnd: this.#guarded((outcome: AnswerOutcome) => this.#finish(rid, outcome)),
    });
  }

  #cancel(rid: number): void {
    if (this.#answer !== undefined) return this.#answer.cancel();
    // No request is open if the cancel and the final crossed in transit.
    if (this.#established?.channel.watch.isOpen() !== true) return;
    this.#endArrival();
    this.#finish(rid, cancelled());
  }

  #send(type: "chunk" | "final", rid: number, data: Uint8Array): void {
    if (this.#hasEnded()) return;
    const frame = this.#established?.channel.seal(type, rid, data);
    if (frame === undefined) return;
    if (isFault(frame)) return this.#breakOff(frame);
    this.#timers.onFrame();
    // `seal` allocates frames from Node's pool, so this does not copy.
    if (!this.#peer.binary(Buffer.from(frame.buffer, frame.byteOffset, frame.length))) {
      this.#answer?.pause();
    }
  }

  #finish(rid: number, outcome: AnswerOutcome): void {
    this.#answer = undefined;
    this.#arriving.release();
    const established = this.#established;
    if (established === undefined || this.#state !== "open") return;
    const summary = summarize(outcome, established, this.#deps);
    this.#send("final", rid, summary.final);
    if (!this.#hasEnded()) this.#report(rid, summary, () => this.#endIfIdle());
  }

  #report(rid: number, summary: Summary, reported: () => void): void {
    const watched = this.#established?.channel.watch.take(rid);
    if (watched === undefined) return;
    this.#reporting++;
    summary
      .report(watched)
      .then(({ report: bytes, sig }) => {
        this.#reporting--;
        if (this.#isClosed()) return;
        this.#peer.text(writeReportFrame(rid, bytes, sig));
        reported();
      })
      .catch((error: unknown) => this.#onException(error));
  }

  #isClosed(): boolean {
    return this.#state === "closed";
  }

  #hasEnded(): boolean {
    return this.#state === "broken" || this.#isClosed();
  }

  #endIfIdle(): void {
    const isBusy = this.#reporting > 0 || this.#established?.channel.watch.isOpen() === true;
    if (isBusy) return;
    if (this.#ending !== undefined) return this.#fail(this.#ending);
    if (this.#isStopping) this.#close(plainCloseCodes.ok);
  }

  /** Cancels the running request before its keyset expires, so that its report is still valid. */
  #expire(): void {
    this.#ending = fault("LIMIT_EXCEEDED", "the session has reached its maximum duration");
    if (this.#answer !== undefined) this.#answer.cancel();
    else if (this.#reporting === 0) this.#fail(this.#ending);
  }

  /**
   * A running answer stops without a final, but its report is sent first: otherwise a client could get answers for free
   * by breaking its session.
   */
  #breakOff(reason: Fault): void {
    const answer = this.#answer;
    const established = this.#established;
    if (answer === undefined || established === undefined) return this.#fail(reason);
    this.#state = "broken";
    this.#answer = undefined;
    const summary = summarize(cancelled(answer.abort()), established, this.#deps);
    this.#report(established.channel.watch.rid(), summary, () => this.#fail(reason));
  }

  #fail(reason: Fault): void {
    const { code, message } = reason;
    this.#close(closeCodes[code], { code, message });
  }

  /** Handles an exception, which is a bug in Sluice. The session's keys are not used any more. */
  #onException(error: unknown): void {
    this.#deps.log.error({ err: error }, "a session of the encrypted stream failed");
    this.#close(plainCloseCodes.internal);
  }

  #close(code: number, error?: { readonly code: StreamCode; readonly message: string }): void {
    if (this.#isClosed()) return;
    this.#end();
    this.#peer.close(code, error);
  }

  #end(): void {
    this.#state = "closed";
    this.#timers[Symbol.dispose]();
    this.#leaving.abort();
    this.#endArrival();
    this.#answer?.abort();
    this.#answer = undefined;
    this.#arriving.release();
  }
}

const notServed = {
  code: "MODEL_NOT_AVAILABLE",
  message: "the model is currently not served here",
} as const;
