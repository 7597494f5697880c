/** A journal in memory, which survives its process. The test decides when what is appended reaches it. */
import type {
  ChargeJournal,
  JournalBatch,
} from "../../../../plugins/billing/leases/journal-lane.ts";
import type { LeasedCharge } from "../../../../plugins/billing/leases/ledger.ts";

interface Append {
  readonly charges: readonly LeasedCharge[];
  readonly done: (isWritten: boolean) => void;
}

/** Maximum number of charges in a batch. A settlement has at most two. */
const maxCharges = 3;

export class Disk implements ChargeJournal {
  readonly id: string;
  isWritable = true;
  /** The commits. The commit at index n has the number n + 1, and one charge. */
  readonly commits: LeasedCharge[] = [];
  #waiting: Append[] = [];

  constructor(id: string) {
    this.id = id;
  }

  get lastCommit(): number {
    return this.commits.length;
  }

  append(charges: readonly LeasedCharge[], done: Append["done"]): void {
    this.#waiting.push({ charges, done });
  }

  read(after: number, done: (batch: JournalBatch | undefined) => void): void {
    const charges = this.commits.slice(after, after + maxCharges);
    const last = after + charges.length;
    done({ first: after + 1, last, charges, more: last < this.lastCommit });
  }

  has(requestId: string): boolean {
    return this.commits.some(({ details }) => details.request_id === requestId);
  }

  /** Writes what is appended, or reports that it cannot be written. */
  sync(isWritten = true): void {
    for (const { charges, done } of this.#waiting.splice(0)) {
      if (isWritten) this.commits.push(...charges);
      done(isWritten);
    }
  }

  /** The process has ended: what is not written is lost. */
  crash(): void {
    this.#waiting = [];
  }
}
