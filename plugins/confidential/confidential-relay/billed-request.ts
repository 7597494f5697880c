/**
 * The accounting of one request of a session. Credit is reserved before the last frame of the request is forwarded to
 * the enclave. The charge is computed from the enclave's signed report, in which the gateway checks every claim that it
 * can check.
 */
import type { Awaitable, Outcome } from "sluice-gateway/plugin";
import {
  atCoefficient,
  type Price,
  type Receipt,
  type StreamCharge,
  type StreamCustomer,
} from "sluice-gateway/services";
import { andThen } from "sluice-gateway/internal/toolkit";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { toBase64Url } from "../protocol/encoding.ts";
import { maxUnseenTokens } from "../protocol/limits.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import type { FrameWatch, WatchedExchange } from "../protocol/frame-watch.ts";
import type { Hello } from "../protocol/hello.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import type { Finish, UsageReport } from "../protocol/usage-report.ts";
import {
  sessionExpectation,
  verifyUsageReport,
  type ReportVerdict,
} from "../protocol/verify-usage-report.ts";
import { countsOf, usageOf, type ReportFrame } from "../protocol/text-frames.ts";
import { creditMilliCu } from "./retry-credits.ts";
import type { UpstreamSession } from "./open-enclave.ts";
import type { RetryCredits } from "./stream-store.ts";

/** An open session, for its accounting. */
export interface SessionContext {
  readonly hello: Hello;
  readonly id: string;
  readonly upstream: UpstreamSession;
  readonly watch: FrameWatch;
  readonly customer: StreamCustomer;
  readonly counters: SeenCounters;
  readonly retryCredits: RetryCredits;
  /** Seconds since 1970. */
  readonly now: () => number;
}

export interface RequestBill {
  readonly receipt: Receipt;
  readonly done: string;
  readonly verdict: ReportVerdict;
  /**
   * True if the enclave produced nothing, for example because the request was refused or cancelled at once. Such a
   * request is free and has no receipt.
   */
  readonly isEmpty: boolean;
  /**
   * True if the report has more tokens than the answer has bytes. Hidden reasoning can be the cause, so a person must
   * decide.
   */
  readonly isImplausible: boolean;
}

export class BilledRequest {
  readonly rid: number;
  readonly #facts: SessionContext;
  isForwarded = false;
  isAnswered = false;
  #frameBytes = 0;
  readonly #answer = { sent: 0, all: 0 };
  #charge: StreamCharge | undefined;
  /**
   * Monotonic milliseconds. Undefined before the enclave has received the request, and after the end has been recorded.
   */
  #forwardedAt: number | undefined;

  constructor(rid: number, facts: SessionContext) {
    this.rid = rid;
    this.#facts = facts;
  }

  add(frame: Uint8Array): void {
    this.#frameBytes += frame.length;
  }

  addChunk(length: number, isSent: boolean): void {
    const { hello, upstream } = this.#facts;
    if (this.#answer.all === 0 && this.#forwardedAt !== undefined) {
      upstream.records?.firstToken(hello.model, this.#forwardedAt);
    }
    this.#answer.all += length;
    if (isSent) this.#answer.sent += length;
  }

  /** The maximum cost is one token for each byte of ciphertext, and the maximum number of output tokens. */
  reserve(): Awaitable<Fault | undefined> {
    const { hello, upstream, customer } = this.#facts;
    const maxMilliCu = upstream.price.maxMilliCu(this.#frameBytes, hello.maxOutputTokens);
    return andThen(customer.reserve(maxMilliCu), (charge) => {
      if (charge === "refused") return fault("INSUFFICIENT_BALANCE", "insufficient credit");
      if (charge === "unavailable") return unwritten;
      this.#charge = charge;
      this.#forwardedAt = upstream.records?.now();
      return undefined;
    });
  }

  /** Resolves when the charge has been written to disk. */
  async bill(signed: ReportFrame): Promise<RequestBill | Fault> {
    const exchange = this.#facts.watch.take(this.rid);
    const verdict = await this.#judge(signed, exchange);
    const { report } = verdict;
    if (report === undefined) return unreadable;
    const { hello, upstream, customer, retryCredits } = this.#facts;
    const price = priceOf(upstream, report);
    const fullCostMilliCu = this.#cost(verdict, price);
    const attempt = { keyId: customer.keyId, hello, requestBytes: this.#frameBytes };
    const paidMilliCu = await retryCredits.take(attempt, fullCostMilliCu);
    const costMilliCu = fullCostMilliCu - paidMilliCu;
    if (!this.isAnswered) {
      await retryCredits.add(attempt, creditMilliCu(costMilliCu, this.#answer));
    }
    const { prompt, completion } = report.tokens;
    const isEmpty = prompt + completion === 0;
    if (isEmpty && report.finish === "error") customer.failed("UPSTREAM_FAILED", hello.model);
    if (isEmpty) this.release(endReasonOf[report.finish]);
    else if (!(await this.#settle(verdict, price, costMilliCu))) return unwritten;
    const isImplausible = completion > (exchange?.responseBytes ?? 0);
    const concluded = this.#conclude(signed, verdict, price, { costMilliCu, paidMilliCu });
    return { ...concluded, isEmpty, isImplausible };
  }

  release(reason: RequestEnd = "broken"): void {
    this.#recordEnd(reason);
    this.#charge?.release();
  }

  #recordEnd(reason: RequestEnd): void {
    const since = this.#forwardedAt;
    if (since === undefined) return;
    this.#forwardedAt = undefined;
    const { hello, upstream } = this.#facts;
    upstream.records?.ended(hello.model, since, reason);
  }

  #judge(signed: ReportFrame, exchange: WatchedExchange | undefined): Promise<ReportVerdict> {
    const { hello, upstream, counters, now } = this.#facts;
    const { notAfter } = upstream.attested.keyset;
    return verifyUsageReport(nodeSuite, signed, {
      ...sessionExpectation(upstream.attested, hello),
      evidence: upstream.evidence.assurance === "simulated" ? "simulated" : "accepted",
      now: now(),
      exchange,
      claimCounter: (digest, ctr) => counters.claim(digest, ctr, notAfter),
    });
  }

  /** Returns the cost of the reported tokens, but never more than was reserved (decisions.md section 3). */
  #cost({ report }: ReportVerdict, price: Price): number {
    if (this.#charge === undefined || report === undefined) return 0;
    return Math.min(price.costMilliCu(countsOf(report.tokens)), this.#charge.reservedMilliCu);
  }

  async #settle(
    { report }: ReportVerdict,
    { pricing }: Price,
    costMilliCu: number,
  ): Promise<boolean> {
    const charge = this.#charge;
    // The request was cancelled before it was complete, so nothing was reserved.
    if (charge === undefined) return true;
    const { hello, upstream } = this.#facts;
    const { prompt = 0, completion = 0, cached = 0, reasoning = 0 } = report?.tokens ?? {};
    // An unverified report can claim any number, and sums over the journal must stay exact.
    const inputTokens = Math.min(prompt, this.#frameBytes + maxUnseenTokens);
    const outputTokens = Math.min(completion, hello.maxOutputTokens);
    const cachedTokens = cached > prompt ? 0 : Math.min(cached, inputTokens);
    const tokens = { promptTokens: inputTokens, completionTokens: outputTokens, cachedTokens };
    upstream.records?.used(hello.model, tokens, upstream.workerId);
    this.#recordEnd(endReasonOf[report?.finish ?? "error"]);
    return charge.settle({
      method: "confidential.stream",
      model: hello.model,
      costMilliCu,
      inputTokens,
      outputTokens,
      ...(pricing.classes !== undefined && {
        cachedTokens,
        reasoningTokens: reasoning > completion ? 0 : Math.min(reasoning, outputTokens),
      }),
      outcome: outcomeOf[report?.finish ?? "error"],
      pricing,
    });
  }

  #conclude(
    { report, sig }: ReportFrame,
    verdict: ReportVerdict,
    { pricing }: Price,
    { costMilliCu, paidMilliCu }: { readonly costMilliCu: number; readonly paidMilliCu: number },
  ): Pick<RequestBill, "receipt" | "verdict" | "done"> {
    const { upstream, customer, id } = this.#facts;
    const { verified, unverifiedReason, report: read } = verdict;
    const tokens = read?.tokens ?? { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
    const signed = { report: toBase64Url(report), sig: toBase64Url(sig) };
    const bill = {
      usedCUMilli: costMilliCu,
      ...(paidMilliCu > 0 && { paidBeforeCUMilli: paidMilliCu }),
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
      session: id,
      rid: this.rid,
      keyId: customer.keyId,
      workspaceId: customer.workspaceId,
      ...signed,
      evidenceDigest: upstream.evidenceDigest,
      ...bill,
      verified,
      unverifiedReason,
    };
    return { receipt, verdict, done: JSON.stringify(done) };
  }
}

/** The price at the lower of two coefficients: the one that was offered and the one that the enclave signed. */
function priceOf({ price }: UpstreamSession, { coefficient }: UsageReport): Price {
  return atCoefficient(price, Math.min(coefficient, price.pricing.coefficient));
}

const outcomeOf: Readonly<Record<Finish, Outcome>> = {
  stop: "complete",
  length: "complete",
  cancel: "clientLeft",
  error: "upstreamFailed",
};

type RequestEnd = "" | "broken" | "client_left";

/** The end of a call in metrics. Empty for a complete answer. */
const endReasonOf: Readonly<Record<Finish, RequestEnd>> = {
  stop: "",
  length: "",
  cancel: "client_left",
  error: "broken",
};

/** The only failure of `bill` that the enclave has caused. */
export const unreadable = fault("UPSTREAM_FAILED", "the usage report cannot be read");
const unwritten = fault("UPSTREAM_FAILED", "charges cannot be written at the moment");
const unkept = fault("UPSTREAM_FAILED", "the receipt cannot be stored");

/**
 * Resolves when the charge and the receipt are on disk. If the request cannot be charged, its reservation is released.
 */
export async function settleRequest(
  request: BilledRequest,
  report: ReportFrame,
  receipts: { keep(bill: RequestBill): Promise<boolean> },
): Promise<RequestBill | Fault> {
  let bill: RequestBill | Fault;
  try {
    bill = await request.bill(report);
  } catch (error) {
    request.release();
    throw error;
  }
  if (!isFault(bill)) return (await receipts.keep(bill)) ? bill : unkept;
  request.release();
  return bill;
}
