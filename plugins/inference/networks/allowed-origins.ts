/**
 * The origins that a network's requests may go to: those of its own `url` and `origins`. A status document names the
 * addresses of workers, but neither prompts nor the network's credentials go anywhere because of it alone.
 */
import type { NetworkConfig } from "../../../src/config/config.ts";
import type { Log } from "../../../src/services/log.ts";
import type { ListedWorker } from "./status-document.ts";

/** Log lines per reading of the status document. */
const maxLines = 10;

export class AllowedOrigins {
  readonly #network: string;
  readonly #allowed: ReadonlySet<string>;
  readonly #log: Log;
  /** Origins that were refused at the last reading: each is logged once while it stays. */
  #refused: ReadonlySet<string> = new Set();

  constructor({ name, url, origins }: NetworkConfig, log: Log) {
    this.#network = name;
    this.#allowed = new Set([url, ...origins].map(originOf));
    this.#log = log;
  }

  /** The workers that may be asked. The others are logged with their origin. */
  filter(workers: readonly ListedWorker[]): readonly ListedWorker[] {
    const refused = new Set<string>();
    const allowed = workers.filter(({ url }) => {
      const origin = url === undefined ? undefined : originOf(url);
      if (origin === undefined || this.#allowed.has(origin)) return true;
      refused.add(origin);
      return false;
    });
    const unheard = [...refused].filter((origin) => !this.#refused.has(origin));
    for (const origin of unheard.slice(0, maxLines)) {
      this.#log.warn(
        { network: this.#network, origin },
        `workers at ${origin} are skipped: add it to networks.${this.#network}.origins in pipeline.yaml if it is yours`,
      );
    }
    this.#refused = refused;
    return allowed;
  }
}

/** A WebSocket has the origin of the HTTP request that it begins with. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace("ws", "http")}//${host}`;
}
