/**
 * Caches answers that cannot change, up to a number of bytes. The eviction algorithm is SIEVE (Zhang et al., NSDI
 * 2024): a hit only sets a bit of the entry. To evict, a hand moves from the oldest to the newest entry, and skips (and
 * resets) the entries that were hit since it last passed them.
 */
import type { JsonBody } from "./json-body.ts";

interface Entry {
  readonly key: string;
  readonly answers: MethodAnswers;
  readonly body: JsonBody;
  readonly bytes: number;
  visited: boolean;
  newer: Entry | undefined;
  older: Entry | undefined;
}

/** The cached answers of one node method, by the exact text of the params. */
export type MethodAnswers = Map<string, Entry>;

/**
 * Memory of an entry beyond its key and body: the object, its slot in the Map, and two headers of strings or Buffers.
 */
const entryBytes = 240;

const maxEntryFraction = 1 / 4;

export class AnswerCache {
  readonly #maxBytes: number;
  readonly #answersByMethod = new Map<string, MethodAnswers>();
  #newest: Entry | undefined;
  #oldest: Entry | undefined;
  #hand: Entry | undefined;
  /** Number of bytes in use, including keys and bookkeeping. */
  bytes = 0;
  entries = 0;
  evictions = 0;

  /** `maxBytes`: 0 disables the cache. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Always returns the same object for the same name. */
  answersOf(nodeName: string): MethodAnswers {
    let answers = this.#answersByMethod.get(nodeName);
    if (answers === undefined) {
      answers = new Map();
      this.#answersByMethod.set(nodeName, answers);
    }
    return answers;
  }

  /** The caller must not write to the body. */
  get(answers: MethodAnswers, key: string): JsonBody | undefined {
    const entry = answers.get(key);
    if (entry === undefined) return undefined;
    entry.visited = true;
    return entry.body;
  }

  /** Stores a copy of the body and of the key. Returns false if the body is too large or the key already exists. */
  set(answers: MethodAnswers, key: string, body: JsonBody): boolean {
    const bytes =
      entryBytes + textSize(key) + (typeof body === "string" ? textSize(body) : body.length);
    if (bytes > this.#maxBytes * maxEntryFraction || answers.has(key)) return false;
    while (this.bytes + bytes > this.#maxBytes) this.#evict();
    const entry: Entry = {
      key: copyText(key),
      answers,
      body: typeof body === "string" ? body : copyBytes(body),
      bytes,
      visited: false,
      newer: undefined,
      older: this.#newest,
    };
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
    answers.set(entry.key, entry);
    this.bytes += bytes;
    this.entries++;
    return true;
  }

  delete(answers: MethodAnswers, key: string): void {
    const entry = answers.get(key);
    if (entry !== undefined) this.#remove(entry);
  }

  clear(): void {
    for (const answers of this.#answersByMethod.values()) answers.clear();
    this.#newest = this.#oldest = this.#hand = undefined;
    this.bytes = 0;
    this.entries = 0;
  }

  #evict(): void {
    let hand = this.#hand ?? this.#oldest;
    while (hand !== undefined && hand.visited) {
      hand.visited = false;
      hand = hand.newer ?? this.#oldest;
    }
    if (hand === undefined) return;
    this.#hand = hand;
    this.#remove(hand);
    this.evictions++;
  }

  #remove(entry: Entry): void {
    const { newer, older } = entry;
    if (this.#hand === entry) this.#hand = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    entry.answers.delete(entry.key);
    this.bytes -= entry.bytes;
    this.entries--;
  }
}

/** Returns an upper bound: a string with any character outside latin1 takes two bytes per character. */
function textSize(text: string): number {
  const bytes = Buffer.byteLength(text);
  return bytes === text.length ? bytes : 2 * text.length;
}

/** Copies a key, because it is often a slice of a larger text (a whole request) and would keep all of it in memory. */
function copyText(text: string): string {
  return Buffer.from(text).toString();
}

/** Copies a body outside Node's shared pool, because a small slice would keep the whole pool in memory. */
function copyBytes(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}
