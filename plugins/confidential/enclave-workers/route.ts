/**
 * A worker is offered only after a quote that was created for this gateway has proven which code the worker runs, and
 * only while the keyset of that quote is valid. Every session is verified again.
 */
import { randomBytes } from "node:crypto";
import type {
  AttemptedCall,
  AttemptedWorker,
  EvidenceKind,
  ListedWorker,
  NetworkConfig,
  RunningAttempt,
  WorkerRoute,
} from "sluice-gateway/services";
import { fault, isFault } from "../protocol/fault.ts";
import { writeHello, type Hello } from "../protocol/hello.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import {
  openEnclave,
  type OpenEnclave,
  type OpenFailure,
} from "../confidential-relay/open-enclave.ts";
import { EnclaveAttempt, type OwnSession, type OwnSessions } from "./attempt.ts";
import type { PolicyFor } from "./policy.ts";
import { connectWorker } from "./socket.ts";
import type { EnclaveDeps } from "./enclave-state.ts";

/** Time before the end of a keyset at which the worker is checked again. */
const renewMs = 300_000;

export class EnclaveRoute implements WorkerRoute, OwnSessions {
  readonly config: NetworkConfig;
  readonly deps: EnclaveDeps;
  readonly settled: Promise<void>;
  readonly url: string;
  readonly #model: string;
  readonly #policyFor: PolicyFor;
  #evidence: EvidenceKind = "none";
  /** Milliseconds since 1970. 0 if the worker is not admitted. */
  #admittedUntil = 0;
  /**
   * Digest of the keyset for which the worker has presented a quote with the gateway's own nonce
   * (confidential-stream.md section 1.4). A quote without a nonce could be old, if the host manipulates the clock of
   * its guest.
   */
  #provenKeyset: string | undefined;
  #checking: Promise<void> | undefined;
  #refusal = "";
  #closed = false;

  constructor(
    config: NetworkConfig,
    listed: ListedWorker,
    policyFor: PolicyFor,
    deps: EnclaveDeps,
  ) {
    this.config = config;
    this.deps = deps;
    this.url = streamUrl(listed.url ?? config.url);
    this.#model = listed.model;
    this.#policyFor = policyFor;
    this.settled = this.#check();
  }

  get admitted(): boolean {
    return this.deps.clock.now() < this.#admittedUntil;
  }

  get evidence(): EvidenceKind {
    return this.#evidence;
  }

  attempt(call: AttemptedCall, worker: AttemptedWorker): RunningAttempt {
    return new EnclaveAttempt(call, worker, this);
  }

  async probe(): Promise<boolean> {
    await this.#check();
    return this.admitted;
  }

  listedAgain(): void {
    if (this.deps.clock.now() > this.#admittedUntil - renewMs) void this.#check();
  }

  close(): void {
    this.#closed = true;
  }

  /**
   * `helloBytes`: the `hello` frame as received. The evidence that the worker presents also decides whether the worker
   * is still offered.
   */
  async open(helloBytes: Uint8Array, hello: Hello): Promise<OpenEnclave | OpenFailure> {
    const opened = await this.#open(helloBytes, hello);
    if (!isFault(opened) || opened.isUnseen !== true) return opened;
    // The client has received the keyset through another gateway, so this gateway must get the evidence itself.
    const own = await this.#openOwn(this.#model, 1, "cached");
    if (isFault(own)) return own;
    own.link.close();
    return this.#open(helloBytes, hello);
  }

  async openOwn(model: string, maxOutputTokens: number): Promise<OwnSession | OpenFailure> {
    const opened = await this.#openOwn(model, maxOutputTokens, "cached");
    if (isFault(opened) || this.#isProven(opened)) return opened;
    await this.#check();
    if (this.#isProven(opened)) return opened;
    opened.link.close();
    return fault(
      "ATTESTATION_UNAVAILABLE",
      "the worker has not shown a quote for this gateway's nonce",
    );
  }

  async #open(helloBytes: Uint8Array, hello: Hello): Promise<OpenEnclave | OpenFailure> {
    const { clock, log } = this.deps;
    const { headers, connectMs } = this.config;
    const link = await connectWorker({ url: this.url, headers, connectMs, clock, log });
    if (link === undefined) return fault("UPSTREAM_FAILED", "the worker cannot be reached");
    const policyFor = this.#policyFor;
    const deps = { ...this.deps, role: "worker", policyFor } as const;
    const opened = await openEnclave(link, helloBytes, hello, deps);
    if (!isFault(opened)) {
      if (this.#isProven(opened)) this.#admit(opened);
      // This session is allowed, because the client can require a quote for its own nonce.
      else void this.#check();
    }
    // With any other code, the worker has not presented invalid evidence.
    else if (opened.code === "ATTESTATION_UNAVAILABLE" && opened.isUnseen !== true) {
      this.#refuse(opened);
    }
    return opened;
  }

  async #openOwn(
    model: string,
    maxOutputTokens: number,
    freshness: Hello["freshness"],
  ): Promise<OwnSession | OpenFailure> {
    const ephemeral = await nodeSuite.createEphemeral();
    const hello: Hello = {
      network: this.config.name,
      model,
      maxOutputTokens,
      maxCoefficient: undefined,
      termination: "worker",
      epk: ephemeral.publicKey,
      nonce: new Uint8Array(randomBytes(32)),
      pad: 256,
      evidence: "full",
      known: [],
      freshness,
      idempotencyKey: undefined,
    };
    const opened = await this.#open(writeHello(hello), hello);
    return isFault(opened) ? opened : { ...opened, hello, ephemeral };
  }

  #isProven({ attested }: OpenEnclave): boolean {
    return attested.keysetDigest === this.#provenKeyset;
  }

  /** Calls at the same time share one check. Never rejects. */
  #check(): Promise<void> {
    this.#checking ??= this.#shakeHands()
      .catch((error: unknown) => {
        this.deps.log.error({ err: error, url: this.url }, "a worker could not be checked");
        this.#refuse(fault("UPSTREAM_FAILED", "the check failed"));
      })
      .finally(() => {
        this.#checking = undefined;
      });
    return this.#checking;
  }

  async #shakeHands(): Promise<void> {
    const { clock, counters } = this.deps;
    counters.forget(clock.now() / 1000);
    const opened = await this.#openOwn(this.#model, 1, "quote");
    if (!isFault(opened)) {
      opened.link.close();
      this.#provenKeyset = opened.attested.keysetDigest;
      this.#admit(opened);
    }
    // RATE_LIMITED means that others have requested many quotes. The earlier proof is still valid.
    else if (opened.code !== "RATE_LIMITED") this.#refuse(opened);
  }

  #admit({ attested, evidence }: OpenEnclave): void {
    const until = Math.min(attested.keyset.notAfter * 1000, evidence.validUntil ?? Infinity);
    const { assurance } = evidence;
    const isNew = this.#admittedUntil === 0 || assurance !== this.#evidence;
    this.#admittedUntil = until;
    this.#evidence = assurance;
    this.#refusal = "";
    if (isNew) this.#changed();
  }

  #refuse(refused: OpenFailure): void {
    const failed = refused.evidence?.checks.filter(({ result }) => result === "fail");
    const about = { network: this.config.name, url: this.url, code: refused.code, failed };
    if (this.#refusal !== refused.code && !this.#closed) {
      this.deps.log.warn(about, `a worker is not offered: ${refused.message}`);
    }
    this.#refusal = refused.code;
    if (this.#admittedUntil === 0) return;
    this.#admittedUntil = 0;
    this.#changed();
  }

  #changed(): void {
    if (!this.#closed) this.deps.changed();
  }
}

/** `text`: a worker's URL with `http` or `ws`, with or without the path. */
function streamUrl(text: string): string {
  const url = new URL(text);
  url.protocol = url.protocol.replace("http", "ws");
  if (url.pathname === "/") url.pathname = "/cstream/1";
  return url.href;
}
