/** Workers at the same origin share one client, which opens as many connections as there are requests. */
import { Http1Client, sendRequest } from "sluice-gateway/internal/http";
import type { Clock, Log, UpstreamFailure } from "sluice-gateway/plugin";
import type { ListedWorker, NetworkConfig, Transport, WorkerRoute } from "sluice-gateway/services";
import { HttpAttempt } from "./http-attempt.ts";

const probeMs = 2_000;

/** Most models are served by uvicorn, which closes an idle connection after 5 s, so this time is shorter. */
const unusedMs = 4_000;

interface TransportDeps {
  readonly clock: Clock;
  readonly log: Log;
}

interface SharedClient {
  readonly client: Http1Client;
  routes: number;
}

export class OpenaiTransport implements Transport {
  readonly #config: NetworkConfig;
  readonly #deps: TransportDeps;
  readonly #clients = new Map<string, SharedClient>();
  /** Clients without routes that still have answers to receive. */
  readonly #closing = new Set<Promise<void>>();
  readonly #lines: string;
  readonly #fieldNames: ReadonlySet<string>;

  constructor(config: NetworkConfig, deps: TransportDeps) {
    this.#config = config;
    this.#deps = deps;
    const fields = requestFields(config.headers);
    this.#lines = Array.from(fields, ([name, value]) => `${name}: ${value}\r\n`).join("");
    this.#fieldNames = new Set(fields.keys());
  }

  routeTo(listed: ListedWorker): WorkerRoute {
    const base = baseOf(listed.url ?? this.#config.url);
    const { origin, host } = new URL(base);
    const shared = this.#shared(origin);
    shared.routes++;
    const http = {
      client: shared.client,
      basePath: `${base.slice(origin.length)}/v1`,
      fields: `Host: ${host}\r\n${this.#lines}`,
      fieldNames: this.#fieldNames,
    };
    return {
      admitted: true,
      evidence: "none",
      settled: Promise.resolve(),
      attempt: (call, worker) => new HttpAttempt(call, worker, http),
      probe: (after) => this.#probe(base, after),
      listedAgain() {},
      close: () => {
        if (--shared.routes === 0) this.#closeClient(origin, shared.client);
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#closing);
  }

  #shared(origin: string): SharedClient {
    const known = this.#clients.get(origin);
    if (known !== undefined) return known;
    const { connectMs, idleMs, answerMs } = this.#config;
    const { clock, log } = this.#deps;
    const client = new Http1Client({
      url: new URL(origin),
      connections: Infinity,
      connectMs,
      // The limit for the head of a streamed answer is `idleMs`.
      answerMs: Math.min(answerMs, idleMs),
      idleMs,
      unusedMs,
      maxAnswerBytes: Number.MAX_SAFE_INTEGER,
      clock,
      onBug: (error) => log.error({ err: error, origin }, "a connection to a worker broke"),
    });
    const shared = { client, routes: 0 };
    this.#clients.set(origin, shared);
    return shared;
  }

  #closeClient(origin: string, client: Http1Client): void {
    this.#clients.delete(origin);
    const closing = client.drain();
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }

  /**
   * Returns true for any answer except a server error, because some servers list their models only for some clients. A
   * worker that refused the credentials must accept them now: it gets a request without a model, which costs nothing,
   * because some servers list their models without credentials.
   */
  async #probe(base: string, { status }: UpstreamFailure): Promise<boolean> {
    const wasUnauthorized = isUnauthorized(status);
    try {
      const signal = AbortSignal.timeout(probeMs);
      const { headers } = this.#config;
      const { statusCode, dump } = wasUnauthorized
        ? await sendRequest(`${base}/v1/chat/completions`, {
            method: "POST",
            signal,
            headers: { ...headers, "content-type": "application/json" },
            body: Buffer.from("{}"),
          })
        : await sendRequest(`${base}/v1/models`, { signal, headers });
      await dump();
      return statusCode < 500 && !(wasUnauthorized && isUnauthorized(statusCode));
    } catch {
      return false;
    }
  }
}

function isUnauthorized(status: number | undefined): boolean {
  return status === 401 || status === 403;
}

/** Removes slashes and `/v1` at the end of the base URL, because both forms are in use. */
export function baseOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/** Fields that the configuration cannot set: the gateway decides how a message is framed and where it is sent. */
const ownFields = ["host", "content-length", "transfer-encoding", "connection"];

/** Returns all fields except host and length, by their names in lower case. `configured` replaces the defaults. */
function requestFields(configured: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  const fields = new Map([
    ["content-type", "application/json"],
    ["accept", "text/event-stream, application/json"],
    // With a content coding, tokens would be delayed until others arrive.
    ["accept-encoding", "identity"],
  ]);
  for (const [name, value] of Object.entries(configured)) fields.set(name.toLowerCase(), value);
  for (const name of ownFields) fields.delete(name);
  return fields;
}
