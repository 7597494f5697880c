/** The values of a storage subscription. A node sends the values of all keys first, and then the changes per block. */
import { isObject } from "sluice-gateway/toolkit";
import { parseOrUndefined } from "../json-part.ts";
import type { Accepted, NotificationState } from "./notification-state.ts";
import type { SharedValue, StorageValues } from "./storage-values.ts";

/** Number of characters of the brackets, quotes and commas of one value, and of the rest of a notification. */
const charsPerValue = 8;
const otherChars = 512;

type Change = readonly [key: string, value: string | null];

export class StorageState implements NotificationState {
  readonly #values = new Map<string, SharedValue>();
  readonly #shared: StorageValues;
  readonly #keys: ReadonlySet<string>;
  readonly #maxChars: number;
  #block = "";
  #hasMoved = false;

  /** `keys`: in lower case. `maxChars`: maximum number of characters of a message of the node. */
  constructor(keys: readonly string[], maxChars: number, shared: StorageValues) {
    this.#shared = shared;
    this.#keys = new Set(keys);
    this.#maxChars = maxChars;
  }

  get current(): string | undefined {
    if (this.#block === "") return undefined;
    return JSON.stringify({
      block: this.#block,
      changes: Array.from(this.#values.values(), ({ key, text }) => [key, text]),
    });
  }

  accept(result: string): Accepted {
    const set = readChanges(result, this.#keys);
    if (set === undefined) return "invalid";
    const changed = set.changes.filter(([key, text]) => this.#values.get(key)?.text !== text);
    this.#block = set.block;
    for (const [key, text] of changed) if (!this.#keep(key, text)) return "noMemory";
    if (this.#chars() > this.#maxChars) return "tooLarge";
    const hasMoved = this.#hasMoved;
    this.#hasMoved = false;
    if (!hasMoved) return [result];
    return changed.length === 0 ? [] : [JSON.stringify({ block: set.block, changes: changed })];
  }

  moved(): void {
    this.#hasMoved = this.#block !== "";
  }

  close(): void {
    for (const value of this.#values.values()) this.#shared.release(value);
    this.#values.clear();
    this.#shared.close();
  }

  #keep(key: string, text: string | null): boolean {
    const value = this.#shared.take(key, text);
    if (value === undefined) return false;
    const before = this.#values.get(key);
    this.#values.set(key, value);
    if (before !== undefined) this.#shared.release(before);
    return true;
  }

  /** Returns the number of characters of the first notification of another node. */
  #chars(): number {
    let chars = otherChars;
    for (const { key, text } of this.#values.values()) {
      chars += key.length + (text?.length ?? 4) + charsPerValue;
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
