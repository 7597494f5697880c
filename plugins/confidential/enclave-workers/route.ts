/**
 * The way to one worker's enclave. It is not offered before a quote made for this gateway has shown what it runs, and
 * no longer than the keyset of that quote holds; every session is checked again by itself.
 */
import { randomBytes } from "node:crypto";
import type { NetworkConfig } from "../../../src/config/config.ts";
import { fault, isFault } from "../protocol/fault.ts";
import { writeHello, type Hello } from "../protocol/hello.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import { openEnclave, type OpenEnclave, type OpenFailure } from "../relay/open-enclave.ts";
import type { EvidenceKind } from "../../../src/services/networks.ts";
import type {
  AttemptedCall,
  AttemptedWorker,
  RunningAttempt,
  WorkerRoute,
} from "../../inference/networks/route.ts";
import type { ListedWorker } from "../../inference/networks/status.ts";
import { EnclaveAttempt, type OwnSession, type OwnSessions } from "./attempt.ts";
import type { PolicyFor } from "./policy.ts";
import { connectWorker } from "./socket.ts";
import type { EnclaveDeps } from "./enclave-state.ts";

/** A keyset is asked for anew so long before it ends. */
const renewMs = 300_000;

export class EnclaveRoute implements WorkerRoute, OwnSessions {
  readonly config: NetworkConfig;
  readonly deps: EnclaveDeps;
  /** Settles when it is known for the first time whether the worker may be offered. */
  readonly settled: Promise<void>;
  readonly #url: string;
  readonly #model: string;
  readonly #policyFor: PolicyFor;
  #evidence: EvidenceKind = "none";
  /** Milliseconds since 1970; 0: not admitted. */
  #admittedUntil = 0;
  /**
   * The keyset that has shown a quote for a nonce of ours (confidential-stream.md section 1.4): one without a nonce may
   * have been made long ago, by a host that sets its guest's clock.
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
    this.#url = streamUrl(listed.url ?? config.url);
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

  /** `helloBytes` as they came. What it shows decides whether the worker goes on being offered. */
  async open(helloBytes: Uint8Array, hello: Hello): Promise<OpenEnclave | OpenFailure> {
    const opened = await this.#open(helloBytes, hello);
    if (!isFault(opened) || opened.isUnseen !== true) return opened;
    // The client has met the keyset by way of another gateway; this one asks for the evidence itself.
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
    return fault("ATTESTATION_UNAVAILABLE", "the keyset has shown no quote made for us");
  }

  async #open(helloBytes: Uint8Array, hello: Hello): Promise<OpenEnclave | OpenFailure> {
    const { clock, log } = this.deps;
    const { headers, connectMs } = this.config;
    const link = await connectWorker({ url: this.#url, headers, connectMs, clock, log });
    if (link === undefined) return fault("UPSTREAM_FAILED", "the worker cannot be reached");
    const policyFor = this.#policyFor;
    const deps = { ...this.deps, role: "worker", policyFor } as const;
    const opened = await openEnclave(link, helloBytes, hello, deps);
    if (!isFault(opened)) {
      if (this.#isProven(opened)) this.#admit(opened);
      // Of itself it may serve its client, who has a nonce of its own; what comes next is checked.
      else void this.#check();
    }
    // Whatever else went wrong, it showed no bad evidence.
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

  /** Never rejects. */
  #check(): Promise<void> {
    this.#checking ??= this.#shakeHands()
      .catch((error: unknown) => {
        this.deps.log.error({ err: error, url: this.#url }, "a worker could not be checked");
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
    // Others have asked it for quotes; what it has shown before still holds.
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
    const about = { network: this.config.name, url: this.#url, code: refused.code, failed };
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

/** A worker's address as people write it: with the scheme of its status, with or without the path. */
function streamUrl(text: string): string {
  const url = new URL(text);
  url.protocol = url.protocol.replace("http", "ws");
  if (url.pathname === "/") url.pathname = "/cstream/1";
  return url.href;
}
