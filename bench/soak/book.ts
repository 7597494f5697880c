/** What clients were told that they paid, and whether the journal says the same. */

/** A row of `sluice usage export`. */
export interface ChargeRow {
  readonly request_id: string;
  readonly key_id: string;
  readonly used_cu_milli: number;
}

export interface Entry {
  /** Milli-CU as the client was told them; undefined while it has not been told, or if it left before that. */
  toldMilli: number | undefined;
  /** No more than this may be charged. */
  readonly mostMilli: number;
}

export interface BookResult {
  readonly requests: number;
  /** Requests whose client was told what it paid. */
  readonly told: number;
  readonly toldMilli: number;
  readonly charges: number;
  readonly chargedMilli: number;
  /** A sentence per request that was charged something else than it was told, or more than it may be. */
  readonly faults: readonly string[];
}

export class Book {
  readonly #entries = new Map<string, Entry>();
  /** The encrypted sessions choose their own request ids: their charges are compared by what each amount is. */
  readonly sessionMilli: number[] = [];
  /** Encrypted answers that a client asked for and was not told the price of. */
  sessionsLeft = 0;

  /** A request that is about to be sent. */
  open(requestId: string, mostMilli: number): Entry {
    const entry: Entry = { toldMilli: undefined, mostMilli };
    this.#entries.set(requestId, entry);
    return entry;
  }

  get requests(): number {
    return this.#entries.size;
  }

  /** `sessionKey`: id of the key that only the encrypted sessions use. `mostMilli`: of one of their answers. */
  compare(
    rows: readonly ChargeRow[],
    session: { readonly keyId: string; readonly mostMilli: number },
  ): BookResult {
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
    let [told, toldMilli] = [0, 0];
    for (const [id, entry] of this.#entries) {
      const milli = charged.get(id) ?? 0;
      if (milli > entry.mostMilli) {
        faults.push(`${id} was charged ${milli}, more than the ${entry.mostMilli} of its request`);
      }
      if (entry.toldMilli === undefined) continue;
      told++;
      toldMilli += entry.toldMilli;
      if (milli !== entry.toldMilli) {
        faults.push(`${id} was told ${entry.toldMilli} and charged ${milli}`);
      }
    }
    faults.push(...compareSessions(this.sessionMilli, sessionRows, session.mostMilli));
    if (sessionRows.length > this.sessionMilli.length + this.sessionsLeft) {
      faults.push("there are more charges for encrypted answers than answers");
    }
    return {
      requests: this.#entries.size,
      told: told + this.sessionMilli.length,
      toldMilli: toldMilli + sum(this.sessionMilli),
      charges: rows.length,
      chargedMilli: sum([...charged.values()]) + sum(sessionRows),
      faults,
    };
  }
}

/** Every answer that a client was told the price of has a charge of that amount; the others stay within the bound. */
function compareSessions(told: readonly number[], rows: readonly number[], most: number): string[] {
  const faults: string[] = [];
  const left = new Map<number, number>();
  for (const milli of rows) {
    left.set(milli, (left.get(milli) ?? 0) + 1);
    if (milli > most) faults.push(`an encrypted answer was charged ${milli}, more than ${most}`);
  }
  for (const milli of told) {
    const count = left.get(milli) ?? 0;
    if (count === 0 && milli > 0) faults.push(`an encrypted answer was told ${milli}, not charged`);
    left.set(milli, count - 1);
  }
  return faults;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
