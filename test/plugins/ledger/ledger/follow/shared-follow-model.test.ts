/**
 * Random histories of one follow at the node with any number of clients. Each client checks the guarantees of the
 * specification, and the node checks that a block is unpinned once, when no client holds it any more.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { ClientFollow } from "../../../../../plugins/contracts/ledger-follows.ts";
import { SharedFollow } from "../../../../../plugins/ledger/ledger/follow/shared-follow.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { hashAt } from "./follow-node.ts";

/** Number of finalized blocks that stay pinned for new clients. */
const keptFinalized = 10;

interface Event {
  readonly event: string;
  readonly blockHash: string;
  readonly parentBlockHash: string;
  readonly bestBlockHash: string;
  readonly finalizedBlockHashes: readonly string[];
  readonly prunedBlockHashes: readonly string[];
}

class Node {
  readonly parents = new Map<string, string>();
  readonly live = new Set<string>();
  readonly pinned = new Set<string>([hashAt(0)]);
  readonly finalized = [hashAt(0)];
  best = hashAt(0);
  readonly clients: Client[] = [];
  readonly faults: string[] = [];
  readonly follow = new SharedFollow('"f"', false, {
    clock: manualClock(),
    answerMs: 1000,
    cache: undefined,
    sharing: true,
    send: (method, params) => {
      if (method !== "chainHead_v1_unpin") this.faults.push(method);
      const [, hashes] = JSON.parse(params) as [string, readonly string[]];
      for (const hash of hashes) this.#unpin(hash);
    },
    onBroken: (reason) => assert.fail(reason),
    onUnused() {},
    onFinalized() {},
    onChange() {},
    numberOf: async () => undefined,
  });

  get last(): string {
    return this.finalized.at(-1)!;
  }

  say(event: Partial<Event>): void {
    this.follow.receive(JSON.stringify(event));
  }

  /** Adds a block. Its parent can also be on a fork that cannot be finalized any more. */
  extend(n: number): void {
    const parents = [this.last, ...this.live];
    const parent = parents[n % parents.length]!;
    const hash = hashAt(this.parents.size + 1);
    this.parents.set(hash, parent);
    this.live.add(hash);
    this.pinned.add(hash);
    this.say({ event: "newBlock", blockHash: hash, parentBlockHash: parent });
    if (n % 2 === 0 && this.descends(hash)) this.setBest(hash);
  }

  setBest(hash: string): void {
    this.best = hash;
    this.say({ event: "bestBlockChanged", bestBlockHash: hash });
  }

  /** Finalizes a block and its ancestors. Prunes the forks, or leaves them for a later finalization. */
  finalize(n: number): void {
    const able = [...this.live].filter((hash) => this.descends(hash));
    const target = able[n % able.length];
    if (target === undefined) return;
    const hashes = [];
    for (let hash = target; hash !== this.last; hash = this.parents.get(hash)!)
      hashes.unshift(hash);
    if (!this.descends(this.best, target)) this.setBest(target);
    for (const hash of hashes) this.live.delete(hash);
    this.finalized.push(...hashes);
    const dead = [...this.live].filter((hash) => !this.descends(hash));
    const pruned = n % 3 === 0 ? [] : dead;
    for (const hash of pruned) this.live.delete(hash);
    this.say({
      event: "finalized",
      finalizedBlockHashes: hashes,
      prunedBlockHashes: pruned,
    });
  }

  descends(hash: string, from = this.last): boolean {
    for (let at: string | undefined = hash; at !== undefined; at = this.parents.get(at)) {
      if (at === from) return true;
    }
    return false;
  }

  /** The follow unpins in a microtask, from which no exception would reach the test. */
  #unpin(hash: string): void {
    if (!this.pinned.delete(hash)) this.faults.push(`${hash} is unpinned twice`);
    if (this.clients.some(({ pinned }) => pinned.has(hash))) this.faults.push(`${hash} is in use`);
  }
}

class Client {
  readonly pinned = new Set<string>();
  readonly live = new Set<string>();
  readonly follow: ClientFollow;
  last = "";
  best = "";
  readonly #node: Node;

  constructor(node: Node) {
    this.#node = node;
    this.follow = node.follow.join();
    this.follow.start({
      onNotification: (text) => this.#receive(JSON.parse(text) as Event),
      onEnd: () => assert.fail("stopped"),
    });
  }

  unpin(n: number): void {
    const hash = [...this.pinned][n % this.pinned.size];
    if (hash === undefined) return;
    // The client no longer holds it, whatever the follow does.
    this.pinned.delete(hash);
    assert.equal(this.follow.unpin([hash]), true);
    assert.equal(this.follow.unpin([hash]), false);
  }

  #receive(event: Event): void {
    const { parents } = this.#node;
    switch (event.event) {
      case "initialized":
        assert.equal(this.last, "");
        assert.deepEqual(event.finalizedBlockHashes, this.#node.finalized.slice(-keptFinalized));
        for (const hash of event.finalizedBlockHashes) this.pinned.add(hash);
        this.last = this.best = event.finalizedBlockHashes.at(-1)!;
        return;
      case "newBlock":
        assert.ok(!this.pinned.has(event.blockHash) && !this.live.has(event.blockHash));
        assert.ok(this.live.has(event.parentBlockHash) || event.parentBlockHash === this.last);
        assert.equal(event.parentBlockHash, parents.get(event.blockHash));
        this.live.add(event.blockHash);
        this.pinned.add(event.blockHash);
        return;
      case "bestBlockChanged":
        assert.ok(this.live.has(event.bestBlockHash) || event.bestBlockHash === this.last);
        this.best = event.bestBlockHash;
        return;
      case "finalized":
        for (const hash of event.finalizedBlockHashes) {
          assert.equal(parents.get(hash), this.last);
          assert.ok(this.live.delete(hash));
          this.last = hash;
        }
        for (const hash of event.prunedBlockHashes) assert.ok(this.live.delete(hash));
        return;
      default:
        assert.fail(event.event);
    }
  }
}

const steps = fc.array(
  fc.tuple(
    fc.constantFrom("extend", "extend", "extend", "finalize", "join", "leave", "unpin", "unpin"),
    fc.nat(1000),
  ),
  { minLength: 20, maxLength: 150 },
);

test("in random histories, every client gets a correct follow, and blocks are unpinned when nobody holds them", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (history) => {
      const node = new Node();
      const { clients } = node;
      node.say({ event: "initialized", finalizedBlockHashes: node.finalized });
      const keeper = new Client(node);
      clients.push(keeper);
      for (const [kind, n] of history) {
        const index = n % clients.length;
        if (kind === "extend") node.extend(n);
        else if (kind === "finalize") node.finalize(n);
        else if (kind === "join") clients.push(new Client(node));
        else if (kind === "unpin") clients[index]!.unpin(n);
        // The first client stays.
        else if (index > 0) for (const { follow } of clients.splice(index, 1)) follow.close();
        await Promise.resolve();
        assert.deepEqual(node.faults, []);
        for (const client of clients) {
          assert.equal(client.last, node.last);
          assert.equal(client.best, node.best);
          for (const hash of node.live)
            assert.ok(client.live.has(hash) || !node.descends(hash), `${hash} was not reported`);
        }
      }
      for (const { follow } of clients.splice(0)) follow.close();
      await Promise.resolve();
      assert.deepEqual(node.faults, []);
      const kept = [...node.finalized.slice(-keptFinalized), ...node.live];
      assert.deepEqual([...node.pinned].toSorted(), kept.toSorted());
    }),
    { numRuns: 300, seed: 19 },
  );
});
