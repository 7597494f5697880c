/** The methods `chainHead_v1_*` of the demo node. The head never moves, so a follow gets only its first events. */
import { randomBytes } from "node:crypto";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { RecordedChain } from "./chain.ts";
import { RpcFailure, invalidParams } from "./failure.ts";
import { readCall } from "./json-rpc.ts";
import type { Method } from "./method.ts";
import { readHash, readHex, readText } from "./params.ts";
import type { RecordedBlock } from "./recording.ts";

/** The last blocks, which a follow reports as finalized. */
const finalizedBlocks = 4;
/** Maximum number of descendants in one event. */
const pageKeys = 1_000;

const limitReached = { result: "limitReached" };
const notPinned = (): RpcFailure => new RpcFailure(-32801, "Invalid block hash");

interface Follow {
  readonly withRuntime: boolean;
  readonly pinned: Set<string>;
}

type Send = (message: string) => void;

export class DemoFollows {
  readonly #chain: RecordedChain;
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #open = new Map<string, Follow>();
  #nextOperation = 0;

  constructor(chain: RecordedChain, methods: ReadonlyMap<string, Method>) {
    this.#chain = chain;
    this.#methods = methods;
  }

  /** Returns false, and sends nothing, if the text is not a call of these methods. */
  answer(text: string, send: Send): boolean {
    const call = text.includes('"chainHead_v1_') ? readCall(text) : undefined;
    if (call === undefined) return false;
    const { id, method, args } = call;
    const events: [follow: string, event: object][] = [];
    const reply = (outcome: object): void =>
      send(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
    try {
      const result = this.#run(method, args, (follow, event) => void events.push([follow, event]));
      if (result === undefined) return false;
      reply({ result });
    } catch (error) {
      if (!(error instanceof RpcFailure)) throw error;
      const { code, message, data } = error;
      reply({ error: { code, message, data } });
    }
    for (const [subscription, result] of events) {
      const notified = { subscription, result };
      send(
        JSON.stringify({ jsonrpc: "2.0", method: "chainHead_v1_followEvent", params: notified }),
      );
    }
    return true;
  }

  /** Returns undefined for a method that does not exist. `emit`: sends an event after the answer. */
  #run(
    method: string,
    [first, second, ...rest]: readonly unknown[],
    emit: (follow: string, event: object) => void,
  ): unknown {
    if (method === "chainHead_v1_follow") return this.#follow(first, emit);
    const id = readText(first, "followSubscription");
    const follow = this.#open.get(id);
    switch (method) {
      case "chainHead_v1_unfollow":
        this.#open.delete(id);
        return null;
      case "chainHead_v1_unpin":
        if (follow !== undefined) unpin(follow, second);
        return null;
      case "chainHead_v1_continue":
      case "chainHead_v1_stopOperation":
        return null;
      case "chainHead_v1_header":
        return follow === undefined ? null : encodeHeader(this.#pinnedBlock(follow, second));
      case "chainHead_v1_body":
      case "chainHead_v1_call":
      case "chainHead_v1_storage": {
        if (follow === undefined) return limitReached;
        const block = this.#pinnedBlock(follow, second);
        const operationId = String(++this.#nextOperation);
        for (const event of this.#eventsOf(method, block, rest)) {
          emit(id, { ...event, operationId });
        }
        const isStorage = method === "chainHead_v1_storage";
        return { result: "started", operationId, ...(isStorage && { discardedItems: 0 }) };
      }
      default:
        return undefined;
    }
  }

  #follow(withRuntime: unknown, emit: (follow: string, event: object) => void): string {
    if (typeof withRuntime !== "boolean") throw invalidParams("withRuntime: expected a boolean");
    const { head, recording } = this.#chain;
    const hashes = recording.blocks.slice(-finalizedBlocks).map(({ hash }) => hash);
    const id = randomBytes(8).toString("hex");
    this.#open.set(id, { withRuntime, pinned: new Set(hashes) });
    const spec = {
      ...recording.runtimeVersion,
      apis: Object.fromEntries(recording.runtimeVersion["apis"] as [string, number][]),
    };
    emit(id, {
      event: "initialized",
      finalizedBlockHashes: hashes,
      ...(withRuntime && { finalizedBlockRuntime: { type: "valid", spec } }),
    });
    emit(id, { event: "bestBlockChanged", bestBlockHash: this.#chain.block(head).hash });
    return id;
  }

  #pinnedBlock(follow: Follow, value: unknown): RecordedBlock {
    const hash = readHash(value, "hash");
    const number = follow.pinned.has(hash) ? this.#chain.numberOf(hash) : undefined;
    if (number === undefined) throw notPinned();
    return this.#chain.block(number);
  }

  #eventsOf(
    method: string,
    block: RecordedBlock,
    [first, second]: readonly unknown[],
  ): readonly object[] {
    if (method === "chainHead_v1_body") {
      return [{ event: "operationBodyDone", value: block.extrinsics }];
    }
    if (method === "chainHead_v1_storage") return this.#storageEvents(block, first);
    const name = readText(first, "function");
    const bytes = second === "" ? "0x" : readHex(second, "callParameters");
    try {
      const output = this.#methods.get("state_call")?.run(name, bytes, block.hash);
      return [{ event: "operationCallDone", output }];
    } catch (error) {
      if (!(error instanceof RpcFailure)) throw error;
      return [{ event: "operationError", error: error.message }];
    }
  }

  #storageEvents({ hash }: RecordedBlock, items: unknown): readonly object[] {
    if (!Array.isArray(items)) throw invalidParams("items: expected a list");
    const number = this.#chain.numberOf(hash) ?? 0;
    const found: object[] = [];
    for (const item of items as readonly unknown[]) {
      const { key: wanted, type } = isObject(item) ? item : {};
      const key = readHex(wanted, "key");
      const isDescendants = type === "descendantsValues" || type === "descendantsHashes";
      const keys = isDescendants ? this.#descendants(key, number) : [key];
      const isHash = type === "hash" || type === "descendantsHashes";
      for (const each of keys) {
        const value = isHash
          ? this.#chain.digestAt(each, number)?.hash
          : this.#chain.valueAt(each, number);
        if (typeof value === "string")
          found.push({ key: each, [isHash ? "hash" : "value"]: value });
      }
    }
    const pages: object[] = [];
    for (let at = 0; at < found.length; at += pageKeys) {
      pages.push({ event: "operationStorageItems", items: found.slice(at, at + pageKeys) });
    }
    return [...pages, { event: "operationStorageDone" }];
  }

  #descendants(prefix: string, number: number): readonly string[] {
    return this.#chain.keysAt(prefix, Infinity, undefined, number);
  }
}

function unpin({ pinned }: Follow, value: unknown): void {
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const hashes = list.map((each) => readHash(each, "hashOrHashes"));
  if (!hashes.every((hash) => pinned.has(hash))) throw notPinned();
  for (const hash of hashes) pinned.delete(hash);
}

/** Returns the SCALE-encoded header in hexadecimal. The logs of the digest are encoded already. */
function encodeHeader({ header }: RecordedBlock): string {
  const { parentHash, number, stateRoot, extrinsicsRoot, digest } = header;
  const bytes = (hex: string): string => hex.slice(2);
  const logs = digest.logs.map(bytes).join("");
  return `0x${bytes(parentHash)}${compact(Number(number))}${bytes(stateRoot)}${bytes(extrinsicsRoot)}${compact(digest.logs.length)}${logs}`;
}

/** SCALE's compact encoding of a number below 64, in hexadecimal. The recording has nine blocks. */
function compact(number: number): string {
  return (number << 2).toString(16).padStart(2, "0");
}
