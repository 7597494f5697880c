/** Compares the prices that clients received with the charges in the journal. */

/** A row of `sluice usage export`. */
export interface ChargeRow {
  readonly request_id: string;
  readonly key_id: string;
  readonly used_cu_milli: number;
}

export interface Entry {
  /** Price in milli-CU that the client received. Undefined if it has not received one, or left before. */
  pricedMilli: number | undefined;
  /** Maximum amount that may be charged. */
  readonly maxMilli: number;
}

export interface ComparisonResult {
  readonly requests: number;
  /** Number of requests whose client received a price. */
  readonly priced: number;
  readonly pricedMilli: number;
  readonly charges: number;
  readonly chargedMilli: number;
  /** One sentence per request whose charge differs from its price or exceeds its maximum. */
  readonly faults: readonly string[];
}

export class ChargeComparison {
  readonly #entries = new Map<string, Entry>();
  /** Prices of encrypted answers. Sessions choose their own request ids, so their charges are compared by amount. */
  readonly sessionMilli: number[] = [];
  /** Number of encrypted answers that a client asked for and whose price it did not receive. */
  sessionsLeft = 0;

  /** Adds a request that is about to be sent. */
  open(requestId: string, maxMilli: number): Entry {
    const entry: Entry = { pricedMilli: undefined, maxMilli };
    this.#entries.set(requestId, entry);
    return entry;
  }

  get requests(): number {
    return this.#entries.size;
  }

  /** `session`: the key that only the encrypted sessions use, and the maximum charge of one of their answers. */
  compare(
    rows: readonly ChargeRow[],
    session: { readonly keyId: string; readonly maxMilli: number },
  ): ComparisonResult {
    const faults: string[] = [];
    const charged = new Map<string, number>();
    const sessionRows: number[] = [];
    for (const row of rows) {
      if (row.key_id === session.keyId) sessionRows.push(row.used_cu_milli);
      else if (!this.#entries.has(row.request_id)) {
        faults.push(`${row.request_id} was charged and never sent`);
      } else {
        charged.set(row.request_id, (charged.get(row.request_id) ?? 0) + row.used_cu_milli);
      }
    }
    let [priced, pricedMilli] = [0, 0];
    for (const [id, entry] of this.#entries) {
      const milli = charged.get(id) ?? 0;
      if (milli > entry.maxMilli) {
        faults.push(`${id} was charged ${milli}, more than the ${entry.maxMilli} of its request`);
      }
      if (entry.pricedMilli === undefined) continue;
      priced++;
      pricedMilli += entry.pricedMilli;
      if (milli !== entry.pricedMilli) {
        faults.push(`${id} has the price ${entry.pricedMilli} and was charged ${milli}`);
      }
    }
    faults.push(...compareSessions(this.sessionMilli, sessionRows, session.maxMilli));
    if (sessionRows.length > this.sessionMilli.length + this.sessionsLeft) {
      faults.push("there are more charges for encrypted answers than answers");
    }
    return {
      requests: this.#entries.size,
      priced: priced + this.sessionMilli.length,
      pricedMilli: pricedMilli + sum(this.sessionMilli),
      charges: rows.length,
      chargedMilli: sum([...charged.values()]) + sum(sessionRows),
      faults,
    };
  }
}

/** Each answer with a price must have a charge of that amount. The others must not exceed `max`. */
function compareSessions(
  prices: readonly number[],
  rows: readonly number[],
  max: number,
): string[] {
  const faults: string[] = [];
  const left = new Map<number, number>();
  for (const milli of rows) {
    left.set(milli, (left.get(milli) ?? 0) + 1);
    if (milli > max) faults.push(`an encrypted answer was charged ${milli}, more than ${max}`);
  }
  for (const milli of prices) {
    const count = left.get(milli) ?? 0;
    if (count === 0 && milli > 0)
      faults.push(`an encrypted answer has the price ${milli} and was not charged`);
    left.set(milli, count - 1);
  }
  return faults;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
