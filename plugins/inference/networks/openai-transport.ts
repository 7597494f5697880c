/** The transport to workers with OpenAI's chat completions over HTTP. */
import { undici } from "sluice-gateway/http";
import type {
  AttemptedCall,
  AttemptedWorker,
  ListedWorker,
  NetworkConfig,
  Transport,
  WorkerRoute,
} from "sluice-gateway/services";
import { HttpAttempt } from "./http-attempt.ts";
import { baseOf, requestFields } from "./request-head.ts";
import { WorkerServer, type ServerParts } from "./worker-server.ts";

/** Time limit of the probe of an ejected worker. */
const probeMs = 2_000;

interface SharedServer {
  readonly server: WorkerServer;
  /** Number of routes that use the server. */
  routes: number;
}

export class OpenaiTransport implements Transport {
  readonly #config: NetworkConfig;
  readonly #parts: ServerParts;
  /** Loaded here and not at the first probe, which happens while other workers serve requests. */
  readonly #request = undici().request;
  /** The servers by origin. */
  readonly #servers = new Map<string, SharedServer>();
  /** Servers whose routes are closed and whose last answers have not ended. */
  readonly #closing = new Set<Promise<void>>();
  /** The header lines that every request to a worker has. */
  readonly #fields: string;

  constructor(config: NetworkConfig, parts: ServerParts) {
    this.#config = config;
    this.#parts = parts;
    this.#fields = requestFields(config.headers);
  }

  routeTo(listed: ListedWorker): OpenaiRoute {
    const base = baseOf(listed.url ?? this.#config.url);
    const { origin } = new URL(base);
    const shared = this.#shared(origin);
    shared.routes++;
    const path = `${base.slice(origin.length)}/v1`;
    return new OpenaiRoute({
      server: shared.server,
      head: `POST ${path}/chat/completions HTTP/1.1\r\n${this.#fields}`,
      probe: () => this.#probe(`${base}/v1/models`),
      closed: () => {
        if (--shared.routes === 0) this.#closeServer(origin, shared.server);
      },
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#closing);
  }

  #shared(origin: string): SharedServer {
    const known = this.#servers.get(origin);
    if (known !== undefined) return known;
    const shared = { server: new WorkerServer(origin, this.#config, this.#parts), routes: 0 };
    this.#servers.set(origin, shared);
    return shared;
  }

  #closeServer(origin: string, server: WorkerServer): void {
    this.#servers.delete(origin);
    const closing = server.close();
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }

  /**
   * Returns true for any answer except a server error, because some servers list their models only for some clients.
   */
  async #probe(url: string): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(probeMs);
      const { statusCode, body } = await this.#request(url, {
        signal,
        headers: this.#config.headers,
      });
      await body.dump();
      return statusCode < 500;
    } catch {
      return false;
    }
  }
}

interface RouteParts {
  /** The server, shared with other workers at the same origin. */
  readonly server: WorkerServer;
  /** Request line and all header fields except host, length and those of the single request. */
  readonly head: string;
  readonly probe: () => Promise<boolean>;
  readonly closed: () => void;
}

export class OpenaiRoute implements WorkerRoute {
  readonly admitted = true;
  readonly evidence = "none";
  readonly settled = Promise.resolve();
  readonly server: WorkerServer;
  readonly head: string;
  readonly #parts: RouteParts;

  constructor(parts: RouteParts) {
    this.server = parts.server;
    this.head = parts.head;
    this.#parts = parts;
  }

  attempt(call: AttemptedCall, worker: AttemptedWorker): HttpAttempt {
    return new HttpAttempt(call, worker, this);
  }

  probe(): Promise<boolean> {
    return this.#parts.probe();
  }

  listedAgain(): void {}

  close(): void {
    this.#parts.closed();
  }
}
