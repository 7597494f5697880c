/**
 * One client's session: `hello` to an enclave, then frames in both directions as they come, which the gateway watches,
 * accounts for and cannot read. However it ends, what was asked is billed or given back.
 */
import type { Connection } from "../../../src/plugin.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { StreamCustomer } from "../../../src/services/confidential.ts";
import type { Log } from "../../../src/services/log.ts";
import {
  closeCodes,
  errorFrame,
  fault,
  isFault,
  plainCloseCodes,
  type Fault,
  type StreamCode,
} from "../protocol/fault.ts";
import { createFrameWatch } from "../protocol/frame-watch.ts";
import { guarded } from "../protocol/guard.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import { SessionTimers } from "../protocol/session-timers.ts";
import { readTextFrame, writeCancelFrame, type ReportFrame } from "../protocol/text-frames.ts";
import {
  BilledRequest,
  unreadable,
  type RequestBill,
  type SessionContext,
} from "./billed-request.ts";
import { acceptHello, type AcceptedSession, type AcceptHelloDeps } from "./accept-hello.ts";
import type { LinkListener } from "./link.ts";
import { enclaveCode } from "./open-enclave.ts";
import type { RetryCredits } from "./retry-credits.ts";

export interface StreamSessionDeps extends AcceptHelloDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly counters: SeenCounters;
  readonly retries: RetryCredits;
  /** Keeps a receipt; resolves when it is on disk, to false when it cannot be. */
  keep(billed: RequestBill): Promise<boolean>;
}

/** From the final frame to the report, and from the client's leaving to both. */
const reportMs = 10_000;

const unkept = fault("UPSTREAM_FAILED", "the receipt cannot be kept");

/** What an enclave says of a client: otherwise a client could have every worker left out. */
const clientsFaults: ReadonlySet<StreamCode> = new Set([
  "BAD_FRAME",
  "REPLAY",
  "LIMIT_EXCEEDED",
  "RATE_LIMITED",
  "TIMEOUT",
]);

export class StreamSession implements LinkListener {
  /** Resolves when the connection has ended and nothing is owed any more. */
  readonly over: Promise<void>;
  readonly #end: () => void;
  readonly #connection: Connection;
  readonly #customer: StreamCustomer;
  readonly #parts: StreamSessionDeps;
  #facts: SessionContext | undefined;
  #request: BilledRequest | undefined;
  /** What comes before the handshake is done. */
  #held: Buffer[] | undefined;
  /** No frame goes to the client any more; the enclave may still owe a report. */
  #closed = false;
  /** What ends the session once the running request is done. */
  #afterwards: (() => void) | undefined;
  /** The handshake with the enclave. Until it ends the session counts, or a key could begin any number by leaving. */
  #entering: Promise<void> = Promise.resolve();
  /** Bills on their way to the disk. */
  #billing: Promise<void> = Promise.resolve();
  #sound: boolean | undefined = true;
  readonly #time: SessionTimers;
  #report: Disposable | undefined;

  constructor(connection: Connection, customer: StreamCustomer, parts: StreamSessionDeps) {
    this.#connection = connection;
    this.#customer = customer;
    this.#parts = parts;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.over = promise;
    this.#end = resolve;
    const times = (message: string): (() => void) =>
      this.#guarded(() => this.#fail(fault("TIMEOUT", message)));
    this.#time = new SessionTimers(parts.clock, {
      late: times("the handshake took too long"),
      idle: times("nothing was sent for too long"),
      unfinished: times("the request did not come to its end"),
      expired: this.#guarded(() => this.#expire()),
    });
    connection.onMessage = this.#guarded((data, isText) => this.#fromClient(data, isText));
    connection.onClose = this.#guarded(() => this.#clientLeft());
    connection.onGoAway = this.#guarded(() => this.#goAway());
    connection.onDrain = this.#guarded(() => this.#facts?.serving.link.resume());
  }

  /** For callbacks of connections, links and timers: an exception ends this session and not the process. */
  #guarded<Args extends readonly unknown[]>(run: (...args: Args) => void): (...args: Args) => void {
    return guarded(run, (error) => this.#broken(error));
  }

  // What the client sends.

  #fromClient(data: Buffer, isText: boolean): void {
    if (this.#closed) return;
    this.#time.frame();
    const isBegun = this.#facts !== undefined || this.#held !== undefined;
    if (isText === isBegun) {
      return this.#fail(fault("BAD_FRAME", isText ? "a text frame after hello" : "expected hello"));
    }
    if (isText) this.#hello(data);
    else if (this.#held !== undefined) this.#held.push(data);
    else if (this.#facts !== undefined) this.#relay(data, this.#facts);
  }

  #hello(bytes: Buffer): void {
    // There is nothing to send before the answer.
    this.#connection.pause();
    this.#held = [];
    this.#entering = acceptHello(bytes, this.#customer, this.#parts)
      .then((entry) => this.#entered(entry))
      .catch((error: unknown) => this.#broken(error));
  }

  #entered(entry: AcceptedSession | Fault): void {
    if (isFault(entry)) return this.#fail(entry);
    const { hello, name, serving, attestation } = entry;
    const { clock, counters, retries, names } = this.#parts;
    if (this.#closed) {
      names.release(name);
      serving.link.close();
      return serving.ended(true);
    }
    this.#facts = {
      hello,
      name,
      serving,
      customer: this.#customer,
      counters,
      retries,
      watch: createFrameWatch(nodeSuite.newHash),
      now: () => Math.floor(clock.now() / 1000),
    };
    this.#time.begin(serving.attested.keyset.notAfter * 1000);
    this.#connection.send(attestation);
    serving.link.listener = this;
    this.#goOn();
  }

  /** Takes what came meanwhile. */
  #goOn(): void {
    const waiting = this.#held ?? [];
    this.#held = undefined;
    for (const data of waiting) {
      if (this.#facts === undefined || this.#closed) return;
      this.#relay(data, this.#facts);
    }
    this.#connection.resume();
  }

  #relay(data: Buffer, facts: SessionContext): void {
    const header = facts.watch.observe("c2s", data);
    if (isFault(header)) return this.#fail(header);
    if (header.type === "request" && !header.isEnd) this.#time.requestGoesOn();
    else this.#time.requestEnds();
    if (header.type !== "request") return this.#pass(data, facts);
    const begun = this.#request ?? this.#begin(header.rid, facts);
    if (begun === undefined) return undefined;
    if (begun.rid !== header.rid) {
      return this.#fail(fault("BAD_FRAME", "a request before the last one is done"));
    }
    begun.add(data);
    if (header.isEnd && !this.#reserve(begun)) return undefined;
    this.#pass(data, facts);
  }

  #begin(rid: number, facts: SessionContext): BilledRequest | undefined {
    if (!this.#customer.admitted()) {
      this.#fail(fault("UNAUTHORIZED", "the key is not valid any more"));
      return undefined;
    }
    this.#request = new BilledRequest(rid, facts);
    return this.#request;
  }

  /** The enclave can begin only with the last frame: false where the credit for its answer is not to be had. */
  #reserve(request: BilledRequest): boolean {
    const refused = request.reserve();
    request.isAsked = refused === undefined;
    if (refused === undefined) return true;
    this.#request = undefined;
    this.#fail(refused);
    return false;
  }

  #pass(data: Buffer, { serving }: SessionContext): void {
    if (!serving.link.binary(data)) this.#connection.pause();
  }

  // What the enclave sends.

  readonly binary = this.#guarded((frame: Buffer) => this.#fromEnclave(frame));
  readonly text = this.#guarded((frame: Buffer) => this.#textFromEnclave(frame));
  readonly drained = this.#guarded(() => {
    if (this.#held === undefined) this.#connection.resume();
  });
  readonly ended = this.#guarded(() => this.#enclaveFailed());

  #fromEnclave(frame: Buffer): void {
    const facts = this.#facts;
    if (facts === undefined) return;
    this.#time.frame();
    const header = facts.watch.observe("s2c", frame);
    if (isFault(header)) return this.#enclaveFailed();
    if (header.type === "chunk") this.#request?.addChunk(frame.length, !this.#closed);
    else {
      this.#expectReport();
      if (this.#request !== undefined) this.#request.isAnswered = !this.#closed;
    }
    if (!this.#closed && !this.#connection.send(frame)) facts.serving.link.pause();
  }

  #textFromEnclave(frame: Buffer): void {
    const read = readTextFrame(frame);
    if (isFault(read) || read.kind === "attestation" || read.kind === "done") {
      return this.#enclaveFailed();
    }
    if (read.kind === "error") return this.#enclaveRefused(enclaveCode(read.code));
    const request = this.#request;
    if (request === undefined || request.rid !== read.rid) return this.#enclaveFailed();
    this.#request = undefined;
    this.#report?.[Symbol.dispose]();
    // One after the other: the next request may have been answered before this one's charge is on disk.
    this.#billing = this.#billing
      .then(() => this.#bill(request, read))
      .catch((error: unknown) => this.#broken(error));
  }

  async #bill(request: BilledRequest, report: ReportFrame): Promise<void> {
    const billed = await this.#settle(request, report);
    const isBusy = this.#request !== undefined;
    if (this.#closed) return isBusy ? undefined : this.#giveUp();
    if (isFault(billed)) return this.#fail(billed);
    this.#connection.send(billed.done);
    if (!isBusy) this.#afterwards?.();
  }

  /** Resolves when charge and receipt are on disk. */
  async #settle(request: BilledRequest, report: ReportFrame): Promise<RequestBill | Fault> {
    let billed: RequestBill | Fault;
    try {
      billed = await request.bill(report);
    } catch (error) {
      // What was not charged must not stay reserved.
      request.release();
      throw error;
    }
    if (!isFault(billed)) return (await this.#parts.keep(billed)) ? billed : unkept;
    request.release();
    if (billed === unreadable) this.#sound = false;
    return billed;
  }

  /** A final without its report would be an answer without a bill. */
  #expectReport(): void {
    this.#report?.[Symbol.dispose]();
    const late = this.#guarded(() => this.#enclaveFailed());
    this.#report = this.#parts.clock.after(reportMs, late);
  }

  // How it ends.

  #enclaveFailed(code: Fault["code"] = "UPSTREAM_FAILED"): void {
    this.#sound = false;
    const isBusy = this.#request !== undefined;
    this.#giveUp();
    this.#fail(fault(code, "the enclave failed"), isBusy);
  }

  /** Of what a client sends, the enclave alone sees the inside. */
  #enclaveRefused(code: Fault["code"]): void {
    if (!clientsFaults.has(code)) return this.#enclaveFailed(code);
    this.#sound = undefined;
    const isBusy = this.#request !== undefined;
    this.#giveUp();
    this.#fail(fault(code, "the enclave refused"), isBusy);
  }

  /** `isBusy`: a request was running, so it has failed too. */
  #fail(reason: Fault, isBusy = this.#request !== undefined): void {
    if (this.#closed) return;
    if (isBusy || this.#facts === undefined) {
      this.#customer.failed(reason.code, this.#facts?.hello.model);
    }
    this.#connection.send(errorFrame(reason));
    this.#close(closeCodes[reason.code], reason.code);
  }

  #broken(error: unknown): void {
    this.#parts.log.error({ err: error }, "a session of the encrypted stream broke");
    this.#sound = false;
    if (this.#request !== undefined) {
      this.#customer.failed("UPSTREAM_FAILED", this.#facts?.hello.model);
    }
    this.#giveUp();
    if (!this.#closed) this.#close(plainCloseCodes.internal);
  }

  /** Towards the client; what the enclave owes is waited for. */
  #close(code: number, reason = ""): void {
    this.#closed = true;
    this.#connection.close(code, reason);
    this.#wind();
  }

  #clientLeft(): void {
    this.#closed = true;
    this.#wind();
  }

  /** The client is gone, or on its way out: the enclave stops, and says what it has done until then. */
  #wind(): void {
    this.#time[Symbol.dispose]();
    const link = this.#facts?.serving.link;
    if (link === undefined || this.#request?.isAsked !== true) return this.#giveUp();
    link.resume();
    link.text(Buffer.from(writeCancelFrame(this.#request.rid)));
    this.#expectReport();
  }

  /** What has no report now will have none: it is given back, and the link ends. */
  #giveUp(): void {
    this.#report?.[Symbol.dispose]();
    this.#request?.release();
    this.#request = undefined;
    if (!this.#closed) return;
    const facts = this.#facts;
    this.#facts = undefined;
    facts?.serving.link.close();
    facts?.serving.ended(this.#sound);
    void Promise.all([this.#billing, this.#entering]).then(() => {
      if (facts !== undefined) this.#parts.names.release(facts.name);
      this.#end();
    });
  }

  /** The gateway stops: what runs may finish. */
  #goAway(): void {
    this.#endAfterwards(() => this.#close(plainCloseCodes.overloaded));
  }

  /** The session has lasted long enough: a request that runs is its last. */
  #expire(): void {
    this.#endAfterwards(() => this.#fail(fault("LIMIT_EXCEEDED", "the session is over")));
  }

  #endAfterwards(end: () => void): void {
    this.#afterwards ??= end;
    if (!this.#closed && this.#request === undefined) this.#afterwards();
  }
}
