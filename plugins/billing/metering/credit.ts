/** Who has used how much: the windows of every key and the draws of every workspace, in memory. */
import { Draws } from "./periods.ts";
import { dayWindow, monthWindow, RollingWindow } from "./windows.ts";

/** What one key has used. */
export class KeyCredit {
  readonly id: string;
  /** The key's number in the journal; 0 until its first charge. */
  number = 0;
  /** Open reservations, milli-CU. */
  open = 0;
  /** How many reservations hold this object, those of 0 milli-CU included. */
  holders = 0;
  readonly day = new RollingWindow(dayWindow);
  readonly month = new RollingWindow(monthWindow);

  constructor(id: string) {
    this.id = id;
  }

  add(now: number, amountMilli: number): void {
    this.day.add(now, amountMilli);
    this.month.add(now, amountMilli);
  }

  takeBack(now: number, amountMilli: number): void {
    this.day.takeBack(now, amountMilli);
    this.month.takeBack(now, amountMilli);
  }

  /** Nothing is known of it that a new KeyCredit would not know. */
  isIdle(now: number): boolean {
    return this.holders === 0 && this.day.isEmpty(now) && this.month.isEmpty(now);
  }
}

export class WorkspaceCredit extends Draws {
  readonly id: string;
  /** As `KeyCredit.number`. */
  number = 0;

  constructor(id: string) {
    super();
    this.id = id;
  }
}

/** How many keys one sweep looks at: about 0.1 ms. */
const keysPerSweep = 1_000;

export class CreditBook {
  readonly #keys = new Map<string, KeyCredit>();
  /** Never forgotten: what a workspace has drawn of its purchased balance lasts. */
  readonly #workspaces = new Map<string, WorkspaceCredit>();
  #sweeping: MapIterator<KeyCredit> = this.#keys.values();

  /** Reservations that are open. */
  holders = 0;

  get keys(): number {
    return this.#keys.size;
  }

  hold(key: KeyCredit, workspace: WorkspaceCredit, costMilli: number): void {
    this.holders++;
    key.holders++;
    key.open += costMilli;
    workspace.open += costMilli;
  }

  free(key: KeyCredit, workspace: WorkspaceCredit, costMilli: number): void {
    this.holders--;
    key.holders--;
    key.open -= costMilli;
    workspace.open -= costMilli;
  }

  findKey(id: string): KeyCredit | undefined {
    return this.#keys.get(id);
  }

  findWorkspace(id: string): WorkspaceCredit | undefined {
    return this.#workspaces.get(id);
  }

  key(id: string): KeyCredit {
    const known = this.#keys.get(id);
    if (known !== undefined) return known;
    const made = new KeyCredit(id);
    this.#keys.set(id, made);
    return made;
  }

  workspace(id: string): WorkspaceCredit {
    const known = this.#workspaces.get(id);
    if (known !== undefined) return known;
    const made = new WorkspaceCredit(id);
    this.#workspaces.set(id, made);
    return made;
  }

  /** All by their numbers in the journal. Walks through everything: for the rare case that charges are taken back. */
  byNumber(): {
    readonly keys: ReadonlyMap<number, KeyCredit>;
    readonly workspaces: ReadonlyMap<number, WorkspaceCredit>;
  } {
    const numbered = <T extends { readonly number: number }>(all: Iterable<T>): Map<number, T> =>
      new Map(Array.from(all, (each) => [each.number, each]));
    return {
      keys: numbered(this.#keys.values()),
      workspaces: numbered(this.#workspaces.values()),
    };
  }

  /** Forgets idle keys, some at each call; goes round and round. */
  sweep(now: number): void {
    for (let i = 0; i < keysPerSweep; i++) {
      const { value, done } = this.#sweeping.next();
      if (done === true) {
        this.#sweeping = this.#keys.values();
        return;
      }
      if (value.isIdle(now)) this.#keys.delete(value.id);
    }
  }
}
