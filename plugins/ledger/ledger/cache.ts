/**
 * The cache of answers that cannot change, bounded by bytes. Eviction is SIEVE (Zhang et al., NSDI 2024): a hit sets a
 * bit and moves nothing, and one hand sweeps from old to new past the entries that were hit since it last came by.
 */
import type { Body } from "./body.ts";

interface Entry {
  readonly key: string;
  readonly room: Room;
  readonly body: Body;
  readonly bytes: number;
  visited: boolean;
  newer: Entry | undefined;
  older: Entry | undefined;
}

/** The answers of one node method by their params: found in it, a body is the answer to exactly this text. */
export type Room = Map<string, Entry>;

/** What an entry takes beside its key and body: the object, its place in the Map, two string or Buffer headers. */
const entryBytes = 240;

/** No answer takes more than this part of the cache. */
const largestShare = 4;

export class AnswerCache {
  readonly #maxBytes: number;
  readonly #rooms = new Map<string, Room>();
  #newest: Entry | undefined;
  #oldest: Entry | undefined;
  #hand: Entry | undefined;
  /** Bytes held, keys and bookkeeping included. */
  bytes = 0;
  entries = 0;
  evictions = 0;

  /** `maxBytes` 0: keeps nothing. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The room of a node's method; the same object every time. */
  room(nodeName: string): Room {
    let room = this.#rooms.get(nodeName);
    if (room === undefined) {
      room = new Map();
      this.#rooms.set(nodeName, room);
    }
    return room;
  }

  /** The body kept under this key, which is not to be written to. */
  get(room: Room, key: string): Body | undefined {
    const entry = room.get(key);
    if (entry === undefined) return undefined;
    entry.visited = true;
    return entry.body;
  }

  /** Keeps a copy of the body and of the key. False: too large, or there already. */
  set(room: Room, key: string, body: Body): boolean {
    const bytes =
      entryBytes + textSize(key) + (typeof body === "string" ? textSize(body) : body.length);
    if (bytes > this.#maxBytes / largestShare || room.has(key)) return false;
    while (this.bytes + bytes > this.#maxBytes) this.#evict();
    const entry: Entry = {
      key: ownText(key),
      room,
      body: typeof body === "string" ? body : ownBytes(body),
      bytes,
      visited: false,
      newer: undefined,
      older: this.#newest,
    };
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
    room.set(entry.key, entry);
    this.bytes += bytes;
    this.entries++;
    return true;
  }

  clear(): void {
    for (const room of this.#rooms.values()) room.clear();
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
    this.#hand = hand.newer;
    if (hand.newer === undefined) this.#newest = hand.older;
    else hand.newer.older = hand.older;
    if (hand.older === undefined) this.#oldest = hand.newer;
    else hand.older.newer = hand.newer;
    hand.room.delete(hand.key);
    this.bytes -= hand.bytes;
    this.entries--;
    this.evictions++;
  }
}

/** An upper bound: a string with one character beyond latin1 takes two bytes for each. */
function textSize(text: string): number {
  const bytes = Buffer.byteLength(text);
  return bytes === text.length ? bytes : 2 * text.length;
}

/** A key is often a part of a larger text (a whole request) and would keep it alive. */
function ownText(text: string): string {
  return Buffer.from(text).toString();
}

/** Outside the shared pool, which one small slice would keep alive; only large bodies are bytes. */
function ownBytes(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  copy.set(bytes);
  return copy;
}
