/**
 * The origins that requests of a network may be sent to: those of its `url` and `origins`. A status document contains
 * the addresses of workers, but it alone must not decide where prompts and the credentials of the network are sent.
 */
import type { Log } from "sluice-gateway/plugin";
import type { ListedWorker, NetworkConfig } from "sluice-gateway/services";

const maxLines = 10;

export class AllowedOrigins {
  readonly #network: string;
  readonly #allowed: ReadonlySet<string>;
  readonly #log: Log;
  /** Origins that were refused at the last reading. Each is logged once while it stays in the document. */
  #refused: ReadonlySet<string> = new Set();

  constructor({ name, url, origins }: NetworkConfig, log: Log) {
    this.#network = name;
    this.#allowed = new Set([url, ...origins].map(originOf));
    this.#log = log;
  }

  filter(workers: readonly ListedWorker[]): readonly ListedWorker[] {
    const refused = new Set<string>();
    const allowed = workers.filter(({ url }) => {
      const origin = url === undefined ? undefined : originOf(url);
      if (origin === undefined || this.#allowed.has(origin)) return true;
      refused.add(origin);
      return false;
    });
    const newlyRefused = [...refused].filter((origin) => !this.#refused.has(origin));
    for (const origin of newlyRefused.slice(0, maxLines)) {
      this.#log.warn(
        { network: this.#network, origin },
        `workers at ${origin} are skipped: add it to networks.${this.#network}.origins in pipeline.yaml if it is yours`,
      );
    }
    this.#refused = refused;
    return allowed;
  }
}

/** A WebSocket has the origin of the HTTP request that opens it. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace("ws", "http")}//${host}`;
}
