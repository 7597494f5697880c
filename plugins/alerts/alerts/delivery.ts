/**
 * Posts the waiting alerts one after the other, so that the end of a problem never arrives before its start. An alert
 * that the receiver does not accept is sent again after a growing delay, and discarded after a number of attempts.
 */
import { randomUUID, createHmac } from "node:crypto";
import type { SendRequest } from "sluice-gateway/internal/http";
import type { Clock, Log } from "sluice-gateway/plugin";
import { errorCode } from "sluice-gateway/internal/toolkit";
import type { AlertMetrics } from "./metrics.ts";

export interface DeliveryDeps {
  readonly url: string;
  readonly secret: string;
  readonly send: SendRequest;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: AlertMetrics;
}

export interface WaitingAlert {
  readonly id: string;
  readonly type: string;
  readonly body: string;
  attempts: number;
}

export const maxWaiting = 256;
/** Time limit for a response, with its body. */
const answerMs = 10_000;
const maxAnswerBytes = 16 * 1024;
/** Half of the wait is random. It doubles up to ten minutes, so the attempts take half an hour to an hour. */
const firstWaitMs = 10_000;
const maxWaitMs = 600_000;
const maxAttempts = 12;

export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #key: Buffer;
  readonly #waiting: WaitingAlert[];
  readonly #closing = new AbortController();
  #isSending = false;
  #timer: Disposable | undefined;

  /** `waiting`: the alerts that another delivery did not finish. They are sent at once. */
  constructor(deps: DeliveryDeps, waiting: WaitingAlert[]) {
    this.#deps = deps;
    this.#key = signingKey(deps.secret);
    this.#waiting = waiting;
    this.#next();
  }

  /** If the queue is full, the alert is discarded and logged. Never throws. */
  add(type: string, body: string): void {
    const { log, metrics } = this.#deps;
    if (this.#waiting.length >= maxWaiting) {
      metrics.failed("full").add(1);
      log.error({ type }, "alerts: too many alerts are waiting; one was dropped");
      return;
    }
    this.#waiting.push({ id: `msg_${randomUUID()}`, type, body, attempts: 0 });
    metrics.waiting.set(this.#waiting.length);
    if (this.#timer === undefined) this.#next();
  }

  close(): void {
    this.#closing.abort();
    this.#timer?.[Symbol.dispose]();
  }

  #next(): void {
    this.#timer = undefined;
    const [alert] = this.#waiting;
    if (alert === undefined || this.#isSending || this.#closing.signal.aborted) return;
    this.#isSending = true;
    void this.#attempt(alert).then((failure) => {
      this.#isSending = false;
      this.#attempted(alert, failure);
    });
  }

  /** Resolves to undefined if the receiver has accepted the alert, else to the reason. Never rejects. */
  async #attempt({ id, body }: WaitingAlert): Promise<string | undefined> {
    const { clock, url, send } = this.#deps;
    const late = new AbortController();
    using _timer = clock.after(answerMs, () => late.abort());
    const signal = AbortSignal.any([this.#closing.signal, late.signal]);
    try {
      const headers = signedHeaders(this.#key, { id, body, now: clock.now() });
      const answer = await send(url, { method: "POST", headers, body: Buffer.from(body), signal });
      // Only the status matters. The body is read so that the connection can be reused.
      await answer.dump(maxAnswerBytes).catch(() => {});
      const { statusCode } = answer;
      return statusCode >= 200 && statusCode < 300 ? undefined : `status ${statusCode}`;
    } catch (error) {
      if (late.signal.aborted) return "no answer in time";
      return errorCode(error) ?? "failed";
    }
  }

  #attempted(alert: WaitingAlert, failure: string | undefined): void {
    const { clock, log, metrics } = this.#deps;
    if (failure === undefined) {
      this.#remove(alert);
      metrics.sent.add(1);
      this.#next();
      return;
    }
    if (this.#closing.signal.aborted) return;
    metrics.failed("attempt").add(1);
    alert.attempts++;
    const fields = { type: alert.type, id: alert.id, reason: failure };
    if (alert.attempts >= maxAttempts) {
      this.#remove(alert);
      metrics.failed("given up").add(1);
      log.error(fields, "alerts: an alert was given up, because the receiver did not accept it");
      this.#next();
      return;
    }
    if (alert.attempts === 1) log.warn(fields, "alerts: delivery failed; trying again");
    const waitMs = Math.min(maxWaitMs, firstWaitMs * 2 ** (alert.attempts - 1));
    this.#timer = clock.after(Math.ceil((waitMs * (1 + Math.random())) / 2), () => this.#next());
  }

  /** The list may be shared with the delivery of the next load, which may have removed the alert. */
  #remove(alert: WaitingAlert): void {
    const at = this.#waiting.indexOf(alert);
    if (at !== -1) this.#waiting.splice(at, 1);
    this.#deps.metrics.waiting.set(this.#waiting.length);
  }
}

/** The secret has been validated: `whsec_` and base64. */
function signingKey(secret: string): Buffer {
  return Buffer.from(secret.slice("whsec_".length), "base64");
}

/**
 * Signs as specified by Standard Webhooks (github.com/standard-webhooks/standard-webhooks, version 1.0.0). `id`: the
 * same in all attempts of an alert. `now`: milliseconds since 1970.
 */
function signedHeaders(
  key: Buffer,
  { id, body, now }: { readonly id: string; readonly body: string; readonly now: number },
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${hmac}`,
  };
}
