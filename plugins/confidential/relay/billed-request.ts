/**
 * One request of a session as the gateway accounts for it: reserved before its last frame goes to the enclave, charged by
 * the enclave's signed report, whose every claim that can be checked is checked.
 */
import { atCoefficient } from "../../../src/price.ts";
import type { Receipt, StreamCharge, StreamCustomer } from "../../../src/services/confidential.ts";
import { fault, type Fault } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import { toBase64Url } from "../protocol/encoding.ts";
import { maxUnseenTokens } from "../protocol/limits.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import type { Outcome } from "../../../src/plugin.ts";
import type { FrameWatch, WatchedExchange } from "../protocol/frame-watch.ts";
import type { Finish, UsageReport } from "../protocol/usage-report.ts";
import {
  sessionExpectation,
  verifyUsageReport,
  type ReportVerdict,
} from "../protocol/verify-usage-report.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import { usageOf, type ReportFrame } from "../protocol/text-frames.ts";
import { creditMilli, type RetryCredits } from "./retry-credits.ts";
import type { UpstreamSession, StreamPrice } from "./upstream-session.ts";

export interface SessionContext {
  readonly hello: Hello;
  /** base64url of 16 bytes. */
  readonly name: string;
  readonly serving: UpstreamSession;
  readonly watch: FrameWatch;
  readonly customer: StreamCustomer;
  readonly counters: SeenCounters;
  readonly retries: RetryCredits;
  /** Seconds since 1970. */
  readonly now: () => number;
}

/** A request that has been charged. */
export interface RequestBill {
  readonly receipt: Receipt;
  /** The text of the `done` frame. */
  readonly done: string;
  readonly verdict: ReportVerdict;
  /** Nothing was produced, as where a request is refused or cancelled at once: it is free, and leaves no receipt. */
  readonly isEmpty: boolean;
  /** More tokens than bytes in the answer. Hidden reasoning may be the reason: it is for people to look at. */
  readonly isImplausible: boolean;
}

export class BilledRequest {
  readonly rid: number;
  readonly #facts: SessionContext;
  /** The enclave has all of it. */
  isAsked = false;
  /** Its final has gone to the client. */
  isAnswered = false;
  #frameBytes = 0;
  readonly #answer = { sent: 0, all: 0 };
  #charge: StreamCharge | undefined;
  /** Monotonic milliseconds at which the enclave got the request; undefined before that and once its end is recorded. */
  #askedAt: number | undefined;

  constructor(rid: number, facts: SessionContext) {
    this.rid = rid;
    this.#facts = facts;
  }

  /** A frame of it that has come from the client. */
  add(frame: Uint8Array): void {
    this.#frameBytes += frame.length;
  }

  /** Counts a chunk of the answer. `isSent`: it was handed to the client's connection. */
  addChunk(length: number, isSent: boolean): void {
    const { hello, serving } = this.#facts;
    if (this.#answer.all === 0 && this.#askedAt !== undefined) {
      serving.records?.firstToken(hello.model, this.#askedAt);
    }
    this.#answer.all += length;
    if (isSent) this.#answer.sent += length;
  }

  /** Takes the most that it can cost: every byte of ciphertext a token, and all that may be answered. */
  reserve(): Fault | undefined {
    const { hello, serving, customer } = this.#facts;
    const tokens = this.#frameBytes + hello.maxOutputTokens;
    const charge = customer.reserve(serving.price.costMilli(tokens));
    if (charge === "refused") return fault("INSUFFICIENT_BALANCE", "the credit does not reach");
    if (charge === "unavailable") return unwritten;
    this.#charge = charge;
    this.#askedAt = serving.records?.now();
    return undefined;
  }

  /** Judges the report, charges what it says, and resolves when that is on disk. */
  async bill(signed: ReportFrame): Promise<RequestBill | Fault> {
    const exchange = this.#facts.watch.take(this.rid);
    const verdict = await this.#judge(signed, exchange);
    const { report } = verdict;
    if (report === undefined) return unreadable;
    const { hello, serving, customer, retries } = this.#facts;
    const price = priceOf(serving, report);
    const told = this.#cost(verdict, price);
    const attempt = { keyId: customer.keyId, hello, requestBytes: this.#frameBytes };
    const paidMilli = retries.paid(attempt, told);
    const costMilli = told - paidMilli;
    if (!this.isAnswered) retries.lost(attempt, creditMilli(costMilli, this.#answer));
    const { prompt, completion } = report.tokens;
    const isEmpty = prompt + completion === 0;
    if (isEmpty && report.finish === "error") customer.failed("UPSTREAM_FAILED", hello.model);
    if (isEmpty) this.release(endOf[report.finish]);
    else if (!(await this.#settle(verdict, price, costMilli))) return unwritten;
    const isImplausible = completion > (exchange?.responseBytes ?? 0);
    const concluded = this.#conclude(signed, verdict, price, { costMilli, paidMilli });
    return { ...concluded, isEmpty, isImplausible };
  }

  /** Ends the request without a charge. */
  release(why: RequestEnd = "broken"): void {
    this.#recordEnd(why);
    this.#charge?.release();
  }

  #recordEnd(why: RequestEnd): void {
    const since = this.#askedAt;
    if (since === undefined) return;
    this.#askedAt = undefined;
    const { hello, serving } = this.#facts;
    serving.records?.ended(hello.model, since, why);
  }

  #judge(signed: ReportFrame, exchange: WatchedExchange | undefined): Promise<ReportVerdict> {
    const { hello, serving, counters, now } = this.#facts;
    const { notAfter } = serving.attested.keyset;
    return verifyUsageReport(nodeSuite, signed, {
      ...sessionExpectation(serving.attested, hello),
      evidence: serving.evidence.assurance === "simulated" ? "simulated" : "accepted",
      now: now(),
      exchange,
      claimCounter: (digest, ctr) => counters.claim(digest, ctr, notAfter),
    });
  }

  /** Never more than was reserved, whatever the enclave counts (decisions.md section 3). */
  #cost({ report }: ReportVerdict, price: StreamPrice): number {
    const { prompt = 0, completion = 0 } = report?.tokens ?? {};
    if (this.#charge === undefined) return 0;
    return Math.min(price.costMilli(prompt + completion), this.#charge.reservedMilli);
  }

  async #settle(
    { report }: ReportVerdict,
    { pricing }: StreamPrice,
    costMilli: number,
  ): Promise<boolean> {
    const charge = this.#charge;
    // Cancelled before it was whole.
    if (charge === undefined) return true;
    const { hello, serving } = this.#facts;
    const { prompt = 0, completion = 0 } = report?.tokens ?? {};
    // A report that does not hold may claim any number; sums of the journal must stay exact.
    const inputTokens = Math.min(prompt, this.#frameBytes + maxUnseenTokens);
    const outputTokens = Math.min(completion, hello.maxOutputTokens);
    const tokens = { promptTokens: inputTokens, completionTokens: outputTokens };
    serving.records?.used(hello.model, tokens);
    this.#recordEnd(endOf[report?.finish ?? "error"]);
    return charge.settle({
      method: "confidential.stream",
      model: hello.model,
      costMilli,
      inputTokens,
      outputTokens,
      outcome: outcomeOf[report?.finish ?? "error"],
      pricing,
    });
  }

  #conclude(
    { report, sig }: ReportFrame,
    verdict: ReportVerdict,
    { pricing }: StreamPrice,
    { costMilli, paidMilli }: { readonly costMilli: number; readonly paidMilli: number },
  ): Pick<RequestBill, "receipt" | "verdict" | "done"> {
    const { serving, customer, name } = this.#facts;
    const { verified, unverifiedReason, report: read } = verdict;
    const tokens = read?.tokens ?? { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
    const signed = { report: toBase64Url(report), sig: toBase64Url(sig) };
    const bill = {
      usedCUMilli: costMilli,
      ...(paidMilli > 0 && { paidBeforeCUMilli: paidMilli }),
      pricing,
    };
    const done = {
      type: "done",
      rid: this.rid,
      usage: { ...usageOf(tokens), verified, unverified_reason: unverifiedReason },
      ...bill,
      ...signed,
    };
    const receipt: Receipt = {
      session: name,
      rid: this.rid,
      keyId: customer.keyId,
      workspaceId: customer.workspaceId,
      ...signed,
      evidenceDigest: serving.evidenceDigest,
      ...bill,
      verified,
      unverifiedReason,
    };
    return { receipt, verdict, done: JSON.stringify(done) };
  }
}

/** At the lower coefficient: the one that was offered, or the one that the enclave signed. */
function priceOf({ price }: UpstreamSession, { coefficient }: UsageReport): StreamPrice {
  return atCoefficient(price, Math.min(coefficient, price.pricing.coefficient));
}

/** As the journal names it for every surface. */
const outcomeOf: Readonly<Record<Finish, Outcome>> = {
  stop: "complete",
  length: "complete",
  cancel: "clientLeft",
  error: "upstreamFailed",
};

type RequestEnd = "" | "broken" | "client_left";

/** As metrics name the end of a call; empty for a whole answer. */
const endOf: Readonly<Record<Finish, RequestEnd>> = {
  stop: "",
  length: "",
  cancel: "client_left",
  error: "broken",
};

/** The enclave's fault; any other of `bill` is ours. */
export const unreadable = fault("UPSTREAM_FAILED", "the usage report cannot be read");
const unwritten = fault("UPSTREAM_FAILED", "nothing can be charged at the moment");
