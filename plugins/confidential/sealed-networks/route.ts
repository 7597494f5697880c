/**
 * The route to a model of a gateway. Each session is verified before it is used, and serves one request at a time. No
 * request is sent in any other way.
 */
import type { Clock } from "sluice-gateway/plugin";
import type {
  AttemptedCall,
  AttemptedWorker,
  EvidenceKind,
  ListedWorker,
  NetworkConfig,
  RunningAttempt,
  WorkerRoute,
} from "sluice-gateway/services";
import { messageLimits } from "sluice-gateway/internal/http";
import { WebSocket as NodeWebSocket } from "ws";
import {
  connect,
  ConfidentialError,
  type ClientClock,
  type Session,
  type ConfidentialCode,
} from "../client/client.ts";
import type { WebChannel } from "../client/web-channel.ts";
import type { ChannelOptions } from "../protocol/channel.ts";
import { createNodeChannel } from "../protocol/node-channel.ts";
import { SealedAttempt } from "./attempt.ts";
import { offerFault, priceText } from "./bill.ts";
import { networkOf } from "./catalogue.ts";
import type { SealedConfig } from "./options.ts";
import type { ReservedSession, SealedDeps, SealedSessions } from "./sealed-sessions.ts";
import {
  factsOf,
  failedCheckOf,
  isVerdict,
  validUntil,
  verificationOf,
  type Verification,
} from "./verification.ts";
import type { OpenWebSocket } from "../client/socket.ts";
import { maxTextBytes } from "../protocol/limits.ts";

const codes: Readonly<Record<number, ConfidentialCode>> = {
  401: "UNAUTHORIZED",
  402: "INSUFFICIENT_BALANCE",
  403: "UNAUTHORIZED",
  429: "RATE_LIMITED",
};

/** The WebSocket of `ws` reports why a gateway has refused a connection. */
const openNodeWebSocket: OpenWebSocket = ({ url, protocols, headers = {} }, refuse) => {
  const socket = new NodeWebSocket(url, protocols, {
    headers,
    followRedirects: false,
    // Compression does not make ciphertext shorter.
    perMessageDeflate: false,
    ...messageLimits(maxTextBytes),
  });
  socket.on("unexpected-response", (_request, { statusCode: status = 0, headers: answered }) => {
    const code = codes[status] ?? (status >= 500 ? "UPSTREAM_FAILED" : "CONNECTION_FAILED");
    const wait = answered["retry-after"] ?? "";
    // The same limits as for the waits of other workers (AttemptFailure).
    const retryAfterSeconds = /^\d{1,9}$/.test(wait)
      ? Math.min(300, Math.max(1, Number(wait)))
      : undefined;
    const message = `the gateway refused the connection with status ${status}`;
    refuse(new ConfidentialError(code, message, { retryAfterSeconds }));
    // This emits `error` and `close`.
    socket.terminate();
  });
  // It has the members of the global WebSocket that a session uses, but its types have names of their own.
  return socket as unknown as WebSocket;
};

/** Time before evidence expires at which it is checked again. */
const renewMs = 300_000;
/** Time for which an unused session is kept: less than the 120 s after which the other end closes it. */
const maxIdleMs = 100_000;
/** Maximum number of unused sessions. Programs that ask with many values of `max_tokens` leave one behind for each. */
const maxIdle = 16;

export class SealedRoute implements WorkerRoute, SealedSessions {
  /** Requests are accepted even if the evidence is refused, so that they get the reason. */
  readonly admitted = true;
  readonly settled = Promise.resolve();
  readonly model: string;
  readonly deps: SealedDeps;
  /** Undefined before the first verification. */
  verification: Verification | undefined;
  readonly #config: NetworkConfig;
  readonly #sealed: SealedConfig;
  readonly #listed: ListedWorker;
  /** The unused sessions, and the time since which each one is unused. */
  readonly #idle = new Map<ReservedSession, number>();
  readonly #closing = new AbortController();
  #accepted: Verification | undefined;
  #price: string | undefined;
  #checking: Promise<unknown> | undefined;

  constructor(config: NetworkConfig, sealed: SealedConfig, listed: ListedWorker, deps: SealedDeps) {
    this.#config = config;
    this.#sealed = sealed;
    this.#listed = listed;
    this.model = listed.model;
    this.deps = deps;
  }

  get evidence(): EvidenceKind {
    const assurance = this.verification?.assurance ?? "none";
    // A session has one of these.
    return assurance as EvidenceKind;
  }

  attempt(call: AttemptedCall, worker: AttemptedWorker): RunningAttempt {
    return new SealedAttempt(call, worker, this);
  }

  async probe(): Promise<boolean> {
    await this.check();
    return this.verification?.failedCheck === undefined;
  }

  listedAgain(): void {
    const { verification } = this;
    const isDue = (verification?.until ?? Infinity) < this.deps.clock.now() + renewMs;
    if (isDue || verification?.failedCheck !== undefined) void this.check();
  }

  /** Verifies the enclave with a new session. Never rejects. */
  check(): Promise<unknown> {
    this.#checking ??= this.#open(this.#config.maxOutputTokens)
      .then((reserved) => {
        this.#closeUnusable();
        if (this.#idle.size > 0) void reserved.session.close();
        else this.release(reserved);
      })
      // The reason is in `verification`.
      .catch(() => undefined)
      .finally(() => (this.#checking = undefined));
    return this.#checking;
  }

  /** Returns an idle session, or a new one. Rejects with a ConfidentialError if a check fails. */
  async reserve(maxTokens: number | undefined): Promise<ReservedSession> {
    const wanted = Math.max(maxTokens ?? 0, this.#config.maxOutputTokens);
    this.#closeUnusable();
    for (const reserved of this.#idle.keys()) {
      // The gateway reserves credit for the bound, so that a larger one than needed can be refused.
      if (reserved.maxOutputTokens !== wanted) continue;
      this.#idle.delete(reserved);
      return reserved;
    }
    return this.#open(wanted);
  }

  release(reserved: ReservedSession): void {
    if (!this.#closing.signal.aborted && this.#idle.size < maxIdle && this.#isUsable(reserved)) {
      this.#idle.set(reserved, this.deps.clock.now());
    } else void reserved.session.close();
  }

  close(): void {
    this.deps.closed(this);
    this.#closing.abort(new ConfidentialError("CONNECTION_CLOSED", "the network was closed"));
    for (const { session } of this.#idle.keys()) void session.close();
    this.#idle.clear();
  }

  #closeUnusable(): void {
    const oldest = this.deps.clock.now() - maxIdleMs;
    for (const [reserved, since] of this.#idle) {
      if (since > oldest && this.#isUsable(reserved)) continue;
      this.#idle.delete(reserved);
      void reserved.session.close();
    }
  }

  /** A session that was opened before the evidence was refused is not used any more. */
  #isUsable({ session, usableUntil }: ReservedSession): boolean {
    const isAccepted = this.verification?.failedCheck === undefined;
    return isAccepted && session.isOpen && this.deps.clock.now() < usableUntil;
  }

  async #open(maxOutputTokens: number): Promise<ReservedSession> {
    const { clock, memory, log } = this.deps;
    const { url, headers, connectMs } = this.#config;
    const { accepted, stream } = this.#sealed;
    const about = { network: networkOf(this.#listed), model: this.model };
    try {
      const session = await connect({
        ...accepted,
        ...about,
        url,
        apiKey: keyOf(headers),
        maxOutputTokens,
        connectMs,
        clock: clientClock(clock),
        memory,
        openChannel: openNodeChannel,
        openWebSocket: openNodeWebSocket,
        signal: this.#closing.signal,
      });
      const fault = offerFault(session.offer, stream.max_price_nano);
      if (fault !== undefined) {
        void session.close();
        const checks = [...session.checks, { name: "price", result: "fail", why: fault } as const];
        throw new ConfidentialError("PRICE_ABOVE_MAX", fault, { checks });
      }
      const until = validUntil(session);
      // A report is refused after the end of the keyset (confidential-stream.md section 3), so an answer needs time
      // until then.
      const usableUntil = until - Math.min(renewMs, (until - clock.now()) / 2);
      return { session, maxOutputTokens, usableUntil, verification: this.#accept(session) };
    } catch (error) {
      const isFirst = this.verification === undefined;
      if (error instanceof ConfidentialError && (isFirst || isVerdict(error))) {
        const failedCheck = failedCheckOf(error);
        if (this.verification?.failedCheck !== failedCheck) {
          log.warn({ ...about, failedCheck }, "an enclave is refused");
        }
        const { checks = [], evidence } = error;
        const refused = { failedCheck, assurance: "none", ...factsOf(evidence), checks };
        this.verification = { gateway: url, ...about, ...refused };
      }
      throw error;
    }
  }

  #accept(session: Session): Verification {
    const { log, clock } = this.deps;
    const { model, keyset, offer } = session;
    const known = this.#accepted;
    if (known !== undefined && known.keyset !== keyset) {
      log.warn({ model, keyset }, "the enclave of a model has new keys, which were verified");
    }
    const price = priceText(offer);
    if (this.#price !== undefined && this.#price !== price) {
      log.warn({ model, before: this.#price, now: price }, "the price of a model has changed");
    }
    this.#price = price;
    const since = known?.keyset === keyset ? known.since : undefined;
    this.#accepted = verificationOf(session, this.#config.url, since ?? clock.now());
    this.verification = this.#accepted;
    return this.#accepted;
  }
}

function keyOf(headers: NetworkConfig["headers"]): string {
  const name = Object.keys(headers).find((each) => each.toLowerCase() === "authorization");
  const value = headers[name ?? ""] ?? "";
  return /^Bearer /i.test(value) ? value.slice(7).trim() : "";
}

/** Node's own functions take less CPU than WebCrypto, which uses threads. */
function openNodeChannel(options: ChannelOptions): Promise<WebChannel> {
  const channel = createNodeChannel(options);
  return Promise.resolve({
    watch: channel.watch,
    seal: (...data) => Promise.resolve(channel.seal(...data)),
    open: (frame) => Promise.resolve(channel.open(frame)),
  });
}

function clientClock(clock: Clock): ClientClock {
  return {
    now: () => clock.now(),
    after(ms, task) {
      const timer = clock.after(ms, task);
      return () => timer[Symbol.dispose]();
    },
  };
}
