import { createHash, createHmac } from "node:crypto";
import type { Clock } from "../../contract/clock.ts";
import type { Environment } from "../../contract/host.ts";
import type { Log } from "../../contract/log.ts";
import type { Counter, Gauge, Metrics } from "../../contract/metrics.ts";
import type { Redis, Seal } from "../../contract/store.ts";
import { countRoundTrips } from "../round-trips.ts";
import { WaitLimit, type Waiting } from "../../base/wait-limit.ts";
import { connectRedis, type RedisClient } from "./connect.ts";
import { hostsOf, parseRedisUrl } from "./redis-url.ts";
import { messageOf } from "../../base/message-of.ts";

export interface RedisOptions {
  readonly url: string;
  readonly environment: Environment;
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Only for tests: time limit of a command in milliseconds. */
  readonly commandMs?: number;
}

/** Time limit of a command in milliseconds. A request waits for it, and can be decided without Redis. */
const defaultCommandMs = 50;

/** Interval at which Redis is asked whether it answers, and maximum time that a start waits for it. */
const probeMs = 1_000;

export class RedisConnection implements Redis {
  readonly client: RedisClient;
  readonly #options: RedisOptions;
  /** Starts every key. The number is that of the keys' format. */
  readonly #prefix: string;
  readonly #hashKey: Buffer;
  readonly #place: string;
  readonly #up: Gauge;
  readonly #roundTrips: (lane: string) => Counter;
  readonly #limit: WaitLimit;
  readonly #probes: Disposable;
  readonly #digests = new Map<string, string>();
  #isUp = false;
  #replicas = 1;
  #reason = "it has not answered yet";
  /** Runs when it is known for the first time whether Redis answers. */
  #onKnown: (() => void) | undefined;

  private constructor(options: RedisOptions) {
    const { url, environment, seal, clock, metrics, commandMs = defaultCommandMs } = options;
    const place = parseRedisUrl(url);
    if (place === undefined) throw new Error("store.redis is not the URL of a Redis");
    this.#options = options;
    this.#prefix = `sluice:1:${environment}:`;
    this.#hashKey = seal.key("redis");
    this.#place = hostsOf(place);
    this.#up = metrics
      .gauge("sluice_store_redis_up", "1 if Redis answers within 50 ms, else 0.")
      .with({});
    this.#roundTrips = countRoundTrips(metrics, "redis");
    this.#limit = new WaitLimit(clock, commandMs);
    this.client = connectRedis(place, commandMs);
    this.client.on("error", (error: Error) => this.#isDown(error));
    this.client.on("close", () => this.#isDown(new Error("the connection was closed")));
    this.client.on("ready", () => void this.#probe());
    this.#probes = clock.every(probeMs, () => void this.#probe());
  }

  /** Connects. Resolves when Redis answers, when it cannot be reached, or after a second. Never rejects. */
  static async open(options: RedisOptions): Promise<RedisConnection> {
    const connection = new RedisConnection(options);
    await new Promise<void>((resolve) => {
      connection.#onKnown = resolve;
      options.clock.after(probeMs, resolve);
    });
    if (!connection.isUp) connection.#warn();
    return connection;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  get place(): string {
    return this.#place;
  }

  get reason(): string {
    return this.#reason;
  }

  get replicas(): number {
    return this.#replicas;
  }

  setReplicas(count: number): void {
    this.#replicas = Math.max(1, count);
  }

  keyOf(kind: string, name: string): string {
    const hash = createHmac("sha256", this.#hashKey).update(`${kind}\n${name}`).digest("base64url");
    // 22 characters have 132 bits.
    return `${this.#prefix}${kind}:${hash.slice(0, 22)}`;
  }

  async run(
    lane: string,
    script: string,
    key: string,
    args: readonly (string | number)[],
  ): Promise<unknown> {
    if (!this.#isUp) throw new Error("Redis does not answer");
    this.#roundTrips(lane).add(1);
    try {
      return await this.#inTime(this.#evaluate(script, key, args));
    } catch (error) {
      this.#isDown(error);
      throw error;
    }
  }

  /** Commands that wait for their answer fail. */
  close(): void {
    this.#isUp = false;
    this.#probes[Symbol.dispose]();
    this.#limit.close();
    this.client.disconnect();
  }

  async #evaluate(
    script: string,
    key: string,
    args: readonly (string | number)[],
  ): Promise<unknown> {
    let digest = this.#digests.get(script);
    if (digest === undefined) {
      digest = createHash("sha1").update(script).digest("hex");
      this.#digests.set(script, digest);
    }
    try {
      return await this.client.evalsha(digest, 1, key, ...args);
    } catch (error) {
      // A server that has just started knows no script.
      if (!messageOf(error).startsWith("NOSCRIPT")) throw error;
      return this.client.eval(script, 1, key, ...args);
    }
  }

  /** Rejects if the answer does not arrive within the limit, whatever the client does. */
  #inTime<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = new Error(`Redis has not answered within ${this.#limit.limitMs} ms`);
      const waiting: Waiting = {
        previous: undefined,
        next: undefined,
        waitingSince: 0,
        // If this process was busy for long, the answer is there, but not read yet.
        expired: () => void setImmediate(reject, late),
      };
      this.#limit.begin(waiting);
      answer.then(resolve, reject).finally(() => this.#limit.end(waiting));
    });
  }

  async #probe(): Promise<void> {
    try {
      await this.#inTime(this.client.set(`${this.#prefix}probe`, 1, "PX", probeMs));
      this.#isAnswering();
    } catch (error) {
      this.#isDown(error);
    }
  }

  #isAnswering(): void {
    if (!this.#isUp) this.#options.log.info({ redis: this.#place }, "Redis is reachable");
    this.#isUp = true;
    this.#up.set(1);
    this.#onKnown?.();
  }

  #isDown(error: unknown): void {
    // Only the message is kept, because the error of a command can hold the password.
    this.#reason = messageOf(error);
    if (this.#isUp) this.#warn();
    this.#isUp = false;
    this.#up.set(0);
    this.#onKnown?.();
  }

  #warn(): void {
    this.#options.log.warn(
      { redis: this.#place, reason: this.#reason },
      "Redis does not answer: each gateway allows its share of the rate limits",
    );
  }
}
