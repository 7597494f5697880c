/**
 * Keeps the latest exchanges for `sluice explain`. Refused exchanges are kept separately, so that successful ones do
 * not displace them. Memory is bounded: a record has some hundred bytes.
 */
import { explain, type Explanation } from "./explanation.ts";
import type { ExchangeRecord } from "./record.ts";

const maxKept = 2_048;
/** Maximum number of exchanges that are returned for one request id, because clients may use an id again. */
const maxFound = 20;

export class ExplanationStore {
  readonly #passed = new Ring();
  readonly #refused = new Ring();

  /** Keeps an exchange that has ended. Without a request id, nobody could ask for it. */
  settled(record: ExchangeRecord): void {
    if (record.facts.requestId === undefined) return;
    (record.code === undefined ? this.#passed : this.#refused).add(record);
  }

  /** Returns the exchanges with this request id that are still kept, newest first. */
  find(requestId: string): readonly Explanation[] {
    return [this.#passed, this.#refused]
      .flatMap((ring) => ring.find(requestId))
      .map((record) => explain(record))
      .sort((a, b) => (a.at < b.at ? 1 : -1))
      .slice(0, maxFound);
  }
}

/** Keeps the latest `maxKept` records. */
class Ring {
  readonly #records: ExchangeRecord[] = [];
  #next = 0;

  add(record: ExchangeRecord): void {
    this.#records[this.#next] = record;
    this.#next = (this.#next + 1) % maxKept;
  }

  find(requestId: string): ExchangeRecord[] {
    return this.#records.filter(({ facts }) => facts.requestId === requestId);
  }
}
