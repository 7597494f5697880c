/** An exchange that waits until its client has a connection for it. */
import { runGuarded } from "../../../guard.ts";
import type { WaitLimit, WaitingAs } from "../../../wait-limit.ts";
import type { Http1Carrier, Http1Options, UpstreamExchange } from "./exchange.ts";

/** It is the carrier of the exchange until there is a connection. */
export class WaitingExchange implements WaitingAs<WaitingExchange>, Http1Carrier {
  readonly exchange: UpstreamExchange;
  readonly hasSent = false;
  waitingSince = 0;
  previous: WaitingExchange | undefined = undefined;
  next: WaitingExchange | undefined = undefined;
  readonly #queue: WaitLimit<WaitingExchange>;
  readonly #options: Http1Options;

  constructor(
    exchange: UpstreamExchange,
    queue: WaitLimit<WaitingExchange>,
    options: Http1Options,
  ) {
    this.exchange = exchange;
    this.#queue = queue;
    this.#options = options;
  }

  expired(): void {
    runGuarded(() => this.exchange.onError("saturated"), this.#options.onBug);
  }

  pause(): void {}

  resume(): void {}

  abort(): void {
    this.#queue.end(this);
  }
}
