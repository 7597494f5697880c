/** The values of a storage subscription. A node sends the values of all keys first, and then the changes per block. */
import { isObject } from "sluice-gateway/toolkit";
import { parseOrUndefined } from "../json-part.ts";
import type { Accepted, NotificationState } from "./notification-state.ts";

/** Number of characters of the brackets, quotes and commas of one value, and of the rest of a notification. */
const charsPerValue = 8;
const otherChars = 512;

type Change = readonly [key: string, value: string | null];

export class StorageState implements NotificationState {
  readonly #values = new Map<string, string | null>();
  readonly #keys: ReadonlySet<string>;
  readonly #maxChars: number;
  #block = "";
  #hasMoved = false;

  /** `keys`: in lower case. `maxChars`: maximum number of characters of a message of the node. */
  constructor(keys: readonly string[], maxChars: number) {
    this.#keys = new Set(keys);
    this.#maxChars = maxChars;
  }

  get current(): string | undefined {
    if (this.#block === "") return undefined;
    return JSON.stringify({ block: this.#block, changes: [...this.#values] });
  }

  accept(result: string): Accepted {
    const set = readChanges(result, this.#keys);
    if (set === undefined) return "invalid";
    const changed = set.changes.filter(([key, value]) => this.#values.get(key) !== value);
    this.#block = set.block;
    for (const [key, value] of set.changes) this.#values.set(key, value);
    if (this.#chars() > this.#maxChars) return "tooLarge";
    const hasMoved = this.#hasMoved;
    this.#hasMoved = false;
    if (!hasMoved) return [result];
    return changed.length === 0 ? [] : [JSON.stringify({ block: set.block, changes: changed })];
  }

  moved(): void {
    this.#hasMoved = this.#block !== "";
  }

  /** Returns the number of characters of the first notification of another node. */
  #chars(): number {
    let chars = otherChars;
    for (const [key, value] of this.#values) {
      chars += key.length + (value?.length ?? 4) + charsPerValue;
    }
    return chars;
  }
}

function readChanges(
  text: string,
  keys: ReadonlySet<string>,
): { readonly block: string; readonly changes: readonly Change[] } | undefined {
  const set = parseOrUndefined(text);
  if (!isObject(set) || typeof set["block"] !== "string" || !Array.isArray(set["changes"])) {
    return undefined;
  }
  const changes: Change[] = [];
  for (const change of set["changes"] as readonly unknown[]) {
    if (!Array.isArray(change)) return undefined;
    const [key, value] = change as readonly unknown[];
    if (typeof key !== "string" || !keys.has(key.toLowerCase())) return undefined;
    if (value !== null && typeof value !== "string") return undefined;
    changes.push([key.toLowerCase(), value]);
  }
  return { block: set["block"], changes };
}
