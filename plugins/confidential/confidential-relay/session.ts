/**
 * Relays one client's session to an enclave. The gateway observes and accounts for the frames, but it cannot decrypt
 * them. However the session ends, every request is either charged or its reservation is released.
 */
import type { Awaitable, Clock, Connection } from "sluice-gateway/plugin";
import type { StreamCustomer } from "sluice-gateway/services";
import { andThen, guarded } from "sluice-gateway/internal/toolkit";
import {
  closeCodes,
  errorFrame,
  fault,
  isFault,
  plainCloseCodes,
  type Fault,
} from "../protocol/fault.ts";
import { SessionTimers } from "../protocol/session-timers.ts";
import { createFrameWatch } from "../protocol/frame-watch.ts";
import type { FrameHeader } from "../protocol/frames.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import { readTextFrame, writeCancelFrame } from "../protocol/text-frames.ts";
import {
  BilledRequest,
  settleRequest,
  unreadable,
  type RequestBill,
  type SessionContext,
} from "./billed-request.ts";
import { acceptHello, type AcceptedSession, type AcceptHelloDeps } from "./accept-hello.ts";
import type { LinkListener } from "./link.ts";
import { codeForClient, isClientError } from "./enclave-errors.ts";

export interface StreamSessionDeps
  extends AcceptHelloDeps, Pick<SessionContext, "counters" | "retryCredits"> {
  readonly clock: Clock;
  /** Resolves to true when the receipt has been written to disk, or to false if it cannot be written. */
  keep(bill: RequestBill): Promise<boolean>;
}

const notAdmitted = {
  refused: fault("UNAUTHORIZED", "the key is no longer valid"),
  unavailable: fault("UPSTREAM_FAILED", "the key cannot be checked now"),
} as const;

/** Maximum time from the final frame to the report, and from the client's disconnect to both. */
const reportMs = 10_000;

export class StreamSession implements LinkListener {
  /** Resolves when the connection has ended and every request has been settled. */
  readonly finished: Promise<void>;
  readonly #finish: () => void;
  readonly #connection: Connection;
  readonly #customer: StreamCustomer;
  readonly #deps: StreamSessionDeps;
  #context: SessionContext | undefined;
  #request: BilledRequest | undefined;
  /** Frames that wait for the end of the handshake or for the answer of a store. Undefined if none has to wait. */
  #held: Buffer[] | undefined;
  /** True if no more frames are sent to the client. The enclave must still send a report if one is missing. */
  #isClosed = false;
  #pendingEnd: (() => void) | undefined;
  /**
   * The session counts against the key's limit until the handshake ends: otherwise a key could start any number of
   * handshakes by disconnecting.
   */
  #accepting: Promise<void> = Promise.resolve();
  /** Resolves when the charges and receipts that are being written are on disk. */
  #settling: Promise<void> = Promise.resolve();
  /** Number of complete answers whose bills are being written. The client still gets these bills. */
  #bills = 0;
  #isHealthy: boolean | undefined = true;
  readonly #timers: SessionTimers;
  #reportDeadline: Disposable | undefined;

  constructor(connection: Connection, customer: StreamCustomer, deps: StreamSessionDeps) {
    this.#connection = connection;
    this.#customer = customer;
    this.#deps = deps;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.finished = promise;
    this.#finish = resolve;
    const failsWith = (message: string): (() => void) =>
      this.#guarded(() => this.#fail(fault("TIMEOUT", message)));
    this.#timers = new SessionTimers(deps.clock, {
      handshakeTimeout: failsWith("the handshake took too long"),
      idleTimeout: failsWith("the session was idle for too long"),
      requestTimeout: failsWith("the request did not arrive completely in time"),
      sessionTimeout: this.#guarded(() => this.#expire()),
    });
    connection.onMessage = this.#guarded((data, isText) => this.#onClientFrame(data, isText));
    connection.onClose = this.#guarded(() => this.#onClientClose());
    connection.onGoAway = this.#guarded(() => this.#onGoAway());
    connection.onDrain = this.#guarded(() => this.#context?.upstream.link.resume());
  }

  #guarded<Args extends readonly unknown[]>(run: (...args: Args) => void): (...args: Args) => void {
    return guarded(run, (error) => this.#onException(error));
  }

  #onClientFrame(data: Buffer, isText: boolean): void {
    if (this.#isClosed) return;
    this.#timers.onFrame();
    const hasHello = this.#context !== undefined || this.#held !== undefined;
    if (isText === hasHello) {
      return this.#fail(fault("BAD_FRAME", isText ? "a text frame after hello" : "expected hello"));
    }
    if (isText) this.#onHello(data);
    else if (!this.#hold(data) && this.#context !== undefined) this.#relay(data, this.#context);
  }

  #onHello(bytes: Buffer): void {
    // A client cannot send requests before it has the enclave's answer.
    this.#connection.pause();
    this.#held = [];
    this.#accepting = acceptHello(bytes, this.#customer, this.#deps)
      .then((accepted) => this.#onAccepted(accepted))
      .catch((error: unknown) => this.#onException(error));
  }

  #onAccepted(accepted: AcceptedSession | Fault): void {
    if (isFault(accepted)) return this.#fail(accepted);
    const { attestation, ...session } = accepted;
    const { upstream } = session;
    if (this.#isClosed) {
      upstream.link.close();
      return upstream.onEnd(true);
    }
    const { clock, counters, retryCredits } = this.#deps;
    this.#context = {
      ...session,
      customer: this.#customer,
      counters,
      retryCredits,
      watch: createFrameWatch(nodeSuite.newHash),
      now: () => Math.floor(clock.now() / 1000),
    };
    this.#timers.begin(upstream.attested.keyset.notAfter * 1000);
    this.#connection.send(attestation);
    upstream.link.listener = this;
    this.#relayHeldFrames();
  }

  #relayHeldFrames(): void {
    const waiting = this.#held ?? [];
    this.#held = undefined;
    for (const data of waiting) {
      if (this.#context === undefined || this.#isClosed) return;
      if (!this.#hold(data)) this.#relay(data, this.#context);
    }
    this.onDrain();
  }

  #hold(data: Buffer): boolean {
    this.#held?.push(data);
    return this.#held !== undefined;
  }

  #relay(data: Buffer, context: SessionContext): void {
    const header = context.watch.observe("c2s", data);
    if (isFault(header)) return this.#fail(header);
    if (header.type === "request" && !header.isEnd) this.#timers.onRequestFrame();
    else this.#timers.onRequestEnd();
    if (header.type !== "request") return this.#forward(data, context);
    const relayed = this.#relayRequest(data, header, context);
    if (!(relayed instanceof Promise)) return undefined;
    this.#connection.pause();
    this.#held = [];
    relayed.then(() => this.#relayHeldFrames()).catch((error: unknown) => this.#onException(error));
  }

  /** If the result is a promise, the frames that follow must wait for it. */
  #relayRequest(data: Buffer, header: FrameHeader, context: SessionContext): Awaitable<void> {
    return andThen(this.#request ?? this.#beginRequest(header.rid, context), (request) => {
      if (request === undefined) return undefined;
      if (request.rid !== header.rid) {
        return this.#fail(fault("BAD_FRAME", "a request before the previous one has ended"));
      }
      request.add(data);
      if (!header.isEnd) return this.#forward(data, context);
      return andThen(this.#reserve(request), (isReserved) => {
        if (isReserved) this.#forward(data, context);
      });
    });
  }

  #beginRequest(rid: number, context: SessionContext): Awaitable<BilledRequest | undefined> {
    return andThen(this.#customer.admitted(), (admission) => {
      if (this.#isClosed || this.#context === undefined) return undefined;
      if (admission !== "admitted") {
        this.#fail(notAdmitted[admission]);
        return undefined;
      }
      this.#request = new BilledRequest(rid, context);
      return this.#request;
    });
  }

  /**
   * Credit is reserved before the last frame is forwarded, because the enclave starts to answer only with the last
   * frame. Returns false if the session has failed or ended.
   */
  #reserve(request: BilledRequest): Awaitable<boolean> {
    return andThen(request.reserve(), (refusal) => {
      if (this.#isClosed || this.#request !== request) {
        request.release();
        return false;
      }
      request.isForwarded = refusal === undefined;
      if (refusal === undefined) return true;
      this.#request = undefined;
      this.#fail(refusal);
      return false;
    });
  }

  #forward(data: Buffer, { upstream }: SessionContext): void {
    if (!upstream.link.binary(data)) this.#connection.pause();
  }

  readonly onBinary = this.#guarded((frame: Buffer) => this.#onEnclaveFrame(frame));
  readonly onText = this.#guarded((frame: Buffer) => this.#onEnclaveText(frame));
  readonly onDrain = this.#guarded(() => {
    if (this.#held === undefined) this.#connection.resume();
  });
  readonly onEnd = this.#guarded(() => this.#onEnclaveFailure());

  #onEnclaveFrame(frame: Buffer): void {
    const context = this.#context;
    if (context === undefined) return;
    this.#timers.onFrame();
    const header = context.watch.observe("s2c", frame);
    if (isFault(header)) return this.#onEnclaveFailure();
    if (header.type === "chunk") this.#request?.addChunk(frame.length, !this.#isClosed);
    else {
      this.#startReportDeadline();
      if (this.#request !== undefined) this.#request.isAnswered = !this.#isClosed;
    }
    if (!this.#isClosed && !this.#connection.send(frame)) context.upstream.link.pause();
  }

  #onEnclaveText(bytes: Buffer): void {
    const frame = readTextFrame(bytes);
    if (isFault(frame) || frame.kind === "attestation" || frame.kind === "done") {
      return this.#onEnclaveFailure();
    }
    if (frame.kind === "error") return this.#onEnclaveError(codeForClient(frame.code));
    const request = this.#request;
    if (request === undefined || request.rid !== frame.rid) return this.#onEnclaveFailure();
    this.#request = undefined;
    this.#reportDeadline?.[Symbol.dispose]();
    const bills = request.isAnswered ? 1 : 0;
    this.#bills += bills;
    // Requests are settled in order, because the next one may be answered before the charge of this one is on disk.
    this.#afterBills(async () => {
      const bill = await settleRequest(request, frame, this.#deps).finally(() => {
        this.#bills -= bills;
      });
      this.#onBill(bill);
    });
  }

  #afterBills(run: () => Awaitable<void>): void {
    this.#settling = this.#settling.then(run).catch((error: unknown) => this.#onException(error));
  }

  #onBill(bill: RequestBill | Fault): void {
    if (bill === unreadable) this.#isHealthy = false;
    const isBusy = this.#request !== undefined;
    if (this.#isClosed) return isBusy ? undefined : this.#releaseUnreported();
    if (isFault(bill)) return this.#fail(bill);
    this.#connection.send(bill.done);
    if (!isBusy && this.#bills === 0) this.#pendingEnd?.();
  }

  /** Fails the session unless the report arrives in time. An answer without a report could not be charged. */
  #startReportDeadline(): void {
    this.#reportDeadline?.[Symbol.dispose]();
    const onTimeout = this.#guarded(() => this.#onEnclaveFailure());
    this.#reportDeadline = this.#deps.clock.after(reportMs, onTimeout);
  }

  #onEnclaveFailure(code: Fault["code"] = "UPSTREAM_FAILED"): void {
    this.#isHealthy = false;
    this.#onEnclaveEnd(fault(code, "the enclave failed"));
  }

  /** Only the enclave can see the plaintext of a request and refuse it. */
  #onEnclaveError(code: Fault["code"]): void {
    if (!isClientError(code)) return this.#onEnclaveFailure(code);
    this.#isHealthy = undefined;
    this.#onEnclaveEnd(fault(code, "the enclave refused"));
  }

  #onEnclaveEnd(reason: Fault): void {
    const isBusy = this.#request !== undefined;
    this.#releaseUnreported();
    if (this.#bills === 0) return this.#fail(reason, isBusy);
    // An enclave that stops ends the session directly after its last report. An error frame must not be followed by a
    // second failure, that of the link.
    this.#context?.upstream.link.close();
    this.#afterBills(() => this.#fail(reason, isBusy));
  }

  #fail(reason: Fault, isBusy = this.#request !== undefined): void {
    if (this.#isClosed) return;
    if (isBusy || this.#context === undefined) {
      this.#customer.failed(reason.code, this.#context?.hello.model);
    }
    this.#connection.send(errorFrame(reason));
    this.#closeConnection(closeCodes[reason.code], reason.code);
  }

  #onException(error: unknown): void {
    this.#deps.log.error({ err: error }, "a session of the encrypted stream failed");
    this.#isHealthy = false;
    if (this.#request !== undefined) {
      this.#customer.failed("UPSTREAM_FAILED", this.#context?.hello.model);
    }
    this.#releaseUnreported();
    if (!this.#isClosed) this.#closeConnection(plainCloseCodes.internal);
  }

  /** The session still waits for a missing report of the enclave. */
  #closeConnection(code: number, reason = ""): void {
    this.#isClosed = true;
    this.#connection.close(code, reason);
    this.#stopEnclave();
  }

  #onClientClose(): void {
    this.#isClosed = true;
    this.#stopEnclave();
  }

  /** Cancels the running answer, so that the enclave reports the tokens that it has produced so far. */
  #stopEnclave(): void {
    this.#timers[Symbol.dispose]();
    const link = this.#context?.upstream.link;
    if (link === undefined || this.#request?.isForwarded !== true) return this.#releaseUnreported();
    link.resume();
    link.text(Buffer.from(writeCancelFrame(this.#request.rid)));
    this.#startReportDeadline();
  }

  /** Called when no report will arrive any more. If the client's connection is closed, also ends the session. */
  #releaseUnreported(): void {
    this.#reportDeadline?.[Symbol.dispose]();
    this.#request?.release();
    this.#request = undefined;
    if (!this.#isClosed) return;
    const context = this.#context;
    this.#context = undefined;
    context?.upstream.link.close();
    context?.upstream.onEnd(this.#isHealthy);
    void Promise.all([this.#settling, this.#accepting]).then(() => {
      this.#finish();
    });
  }

  /** Called when the gateway is stopping. A running request may finish. */
  #onGoAway(): void {
    this.#endWhenIdle(() => this.#closeConnection(plainCloseCodes.overloaded));
  }

  #expire(): void {
    const reason = fault("LIMIT_EXCEEDED", "the session has reached its maximum duration");
    this.#endWhenIdle(() => this.#fail(reason));
  }

  #endWhenIdle(end: () => void): void {
    this.#pendingEnd ??= end;
    if (!this.#isClosed && this.#request === undefined && this.#bills === 0) this.#pendingEnd();
  }
}
