/** Credit in memory: the rolling windows of every key and the draws of every workspace. */
import { Draws } from "./periods.ts";
import { dayWindow, monthWindow, RollingWindow } from "./windows.ts";

/** Credit that one key has used. */
export class KeyCredit {
  readonly id: string;
  /** Number of the key in the journal. 0 before its first charge. */
  number = 0;
  /** Sum of the open reservations, in milli-CU. */
  openMilliCu = 0;
  /** Number of open reservations, including those of 0 milli-CU. */
  holders = 0;
  readonly day = new RollingWindow(dayWindow);
  readonly month = new RollingWindow(monthWindow);

  constructor(id: string) {
    this.id = id;
  }

  add(now: number, amountMilliCu: number): void {
    this.day.add(now, amountMilliCu);
    this.month.add(now, amountMilliCu);
  }

  takeBack(now: number, amountMilliCu: number): void {
    this.day.takeBack(now, amountMilliCu);
    this.month.takeBack(now, amountMilliCu);
  }

  /** Returns true if this object has the same state as a new one, so that it can be deleted. */
  isIdle(now: number): boolean {
    return this.holders === 0 && this.day.isEmpty(now) && this.month.isEmpty(now);
  }
}

export class WorkspaceCredit extends Draws {
  readonly id: string;
  /** Number of the workspace in the journal. 0 before its first charge. */
  number = 0;

  constructor(id: string) {
    super();
    this.id = id;
  }
}

/** Number of keys that one sweep checks. This takes about 0.1 ms. */
const keysPerSweep = 1_000;

export class CreditBook {
  readonly #keys = new Map<string, KeyCredit>();
  /** Workspaces are never deleted, because the drawn part of a purchased balance does not expire. */
  readonly #workspaces = new Map<string, WorkspaceCredit>();
  #sweeping: MapIterator<KeyCredit> = this.#keys.values();

  /** Number of open reservations. */
  holders = 0;

  get keys(): number {
    return this.#keys.size;
  }

  hold(key: KeyCredit, workspace: WorkspaceCredit, costMilliCu: number): void {
    this.holders++;
    key.holders++;
    key.openMilliCu += costMilliCu;
    workspace.openMilliCu += costMilliCu;
  }

  free(key: KeyCredit, workspace: WorkspaceCredit, costMilliCu: number): void {
    this.holders--;
    key.holders--;
    key.openMilliCu -= costMilliCu;
    workspace.openMilliCu -= costMilliCu;
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

  /** Removes all charges and numbers, so that they can be loaded again. The open reservations stay. */
  clear(): void {
    for (const key of this.#keys.values()) {
      key.number = 0;
      key.day.clear();
      key.month.clear();
    }
    for (const workspace of this.#workspaces.values()) {
      workspace.number = 0;
      workspace.clear();
    }
  }

  /**
   * Returns all keys and workspaces by their numbers in the journal. Reads the whole book; used only in the rare case
   * that charges are reversed.
   */
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

  /** Deletes idle keys. Each call checks the next `keysPerSweep` keys and starts over at the end. */
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
