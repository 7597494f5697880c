/** Compares the prices that clients received with the charges in the journal, by the checker of all runs. */
import { check } from "../../test/checker/checker.ts";
import { nothing, type Call, type Charge } from "../../test/checker/history.ts";

/** A row of `sluice usage export`. */
export interface ChargeRow {
  readonly request_id: string;
  readonly key_id: string;
  readonly used_cu_milli: number;
}

export interface Entry {
  /** Price that the client received. Undefined if it left before, or did not receive one. */
  pricedMilli: number | undefined;
  readonly maxMilli: number;
}

export interface ComparisonResult {
  readonly requests: number;
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
    const charged = new Map<string, number>();
    const sessionRows: number[] = [];
    for (const { request_id: id, key_id: keyId, used_cu_milli: milli } of rows) {
      if (keyId === session.keyId) sessionRows.push(milli);
      else charged.set(id, (charged.get(id) ?? 0) + milli);
    }
    const calls = Array.from(this.#entries, ([id, entry]) => callOf(id, entry));
    // The number of charges of a batch is not known, so those of a request count as one. Their sum must be its price.
    const charges = [...charged].map(([requestId, milliCu]): Charge => {
      return { requestId, milliCu, keyId: "", workspaceId: "" };
    });
    const faults = Object.values(check({ ...nothing, calls, charges })).flat();
    const pricedCalls = calls.filter(({ isWhole }) => isWhole);
    faults.push(...compareSessions(this.sessionMilli, sessionRows, session.maxMilli));
    if (sessionRows.length > this.sessionMilli.length + this.sessionsLeft) {
      faults.push("there are more charges for encrypted answers than answers");
    }
    return {
      requests: this.#entries.size,
      priced: pricedCalls.length + this.sessionMilli.length,
      pricedMilli: sum(pricedCalls.map(({ milliCu }) => milliCu)) + sum(this.sessionMilli),
      charges: rows.length,
      chargedMilli: sum([...charged.values()]) + sum(sessionRows),
      faults,
    };
  }
}

/** A call without a price may have been charged: it is a stream, its client left, or it failed. */
function callOf(id: string, { pricedMilli, maxMilli }: Entry): Call {
  const isPriced = pricedMilli !== undefined;
  return {
    id,
    replica: "",
    keyId: "",
    workspaceId: "",
    start: 0,
    end: 0,
    status: isPriced ? 200 : 0,
    isWhole: isPriced,
    milliCu: pricedMilli ?? 0,
    maxMilliCu: maxMilli,
  };
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
