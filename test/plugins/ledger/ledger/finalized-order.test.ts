/**
 * Random histories of a pool of two or three nodes that have different parts of the same chain. Whichever way a client
 * asks for the finalized head, it gets no block below one that any client received before, and nobody waits for ever.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { ClientSubscription } from "../../../../plugins/contracts/ledger-subscriptions.ts";
import { ChainNode } from "./feed/chain-node.ts";
import { startLedger, type StartedLedger } from "./start-ledger.ts";

const lastBlock = 114;
/** A node that has so many blocks less than another one is not used. */
const maxLag = 6;
const probeMs = 5_000;
/** Time in which every client must receive a block that all nodes have. */
const maxWaitSeconds = 120;

interface Event {
  readonly event: string;
  /** Absent from events that concern no finalized blocks. */
  readonly finalizedBlockHashes?: readonly string[];
}

class Client {
  readonly name: string;
  last: number | undefined;
  /** True when the client has its answer, or its subscription has failed, has ended or was closed. */
  isOver = false;
  #subscription: ClientSubscription | undefined;
  readonly #history: History;
  /** The highest finalized block that any client had received when this one began. */
  readonly #floor: number;

  constructor(history: History, name: string) {
    this.name = name;
    this.#history = history;
    this.#floor = history.highest;
  }

  /** `numbers`: finalized blocks in ascending order, which the client gets at the same time. */
  receive(numbers: readonly number[]): void {
    const { last, name } = this;
    const history = this.#history;
    this.last = numbers.at(-1) ?? NaN;
    const isRight =
      last === undefined ? this.last >= this.#floor : numbers.every((n, i) => n === last + 1 + i);
    const after = last === undefined ? `and began when ${this.#floor} was known` : `after ${last}`;
    if (!isRight || this.isOver) history.faults.push(`${name} received ${numbers.join()} ${after}`);
    history.highest = Math.max(history.highest, this.last);
  }

  /** Starts a subscription that has been opened. `numbersOf`: returns the finalized blocks in a notification. */
  start(
    opened: { readonly kind: string; readonly subscription?: ClientSubscription },
    numbersOf: (result: string) => readonly number[],
  ): void {
    this.#subscription = opened.subscription;
    if (this.isOver || opened.subscription === undefined) return this.close();
    opened.subscription.start({
      onNotification: (result) => {
        const numbers = numbersOf(result);
        if (numbers.length > 0) this.receive(numbers);
      },
      onEnd: () => (this.isOver = true),
    });
  }

  close(): void {
    this.isOver = true;
    this.#subscription?.close();
  }
}

class History implements AsyncDisposable {
  readonly clients: Client[] = [];
  readonly faults: string[] = [];
  highest = 0;
  readonly #nodes: readonly ChainNode[];
  readonly #started: StartedLedger;

  constructor(nodes: readonly ChainNode[], started: StartedLedger) {
    this.#nodes = nodes;
    this.#started = started;
  }

  /** `n`: decides which node, client or number of blocks the step concerns. */
  async step(kind: string, n: number): Promise<void> {
    const node = this.#nodes[n % this.#nodes.length]!;
    const blocks = 1 + (n % 3);
    switch (kind) {
      case "extend":
        return node.extend(Math.min(lastBlock, node.best + blocks));
      case "finalize":
        return this.#finalize(node, node.finalized + blocks);
      case "catch up":
        node.extend(Math.max(...this.#nodes.map(({ best }) => best)));
        return this.#finalize(node, Math.max(...this.#nodes.map(({ finalized }) => finalized)));
      case "cut":
        return node.cut();
      case "leave":
        node.isAway = true;
        return node.cut();
      case "come back":
        node.isAway = false;
        return;
      case "probe":
        return this.#started.clock.advance(probeMs);
      case "wait":
        return this.#wait(n % 4 === 0 ? 25 : blocks);
      case "read hash":
        return void this.#read("chain_getFinalizedHead");
      case "read height":
        return void this.#read("archive_v1_finalizedHeight");
      case "subscribe":
        return void this.#subscribe();
      case "follow":
        return void this.#follow();
      case "close":
        return this.clients[n % this.clients.length]?.close();
      default:
        assert.fail(kind);
    }
  }

  /** Makes all nodes usable. Every client must get what was known, and then the last block, which all finalize. */
  async finish(): Promise<void> {
    for (const node of this.#nodes) {
      node.isAway = false;
      node.extend(lastBlock);
    }
    await this.#until(({ last }) => last !== undefined);
    for (const node of this.#nodes) node.finalize(lastBlock);
    await this.#until(({ last }) => last === lastBlock);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#started.close();
    for (const node of this.#nodes) await node[Symbol.asyncDispose]();
  }

  /** Finalizes a block that the node has. The pool believes it, because it is not far above what the probes have seen. */
  #finalize(node: ChainNode, to: number): void {
    const seen = this.#started.nodes().map(({ best = 100 }) => best);
    node.finalize(Math.min(to, node.best, Math.min(...seen) + maxLag));
  }

  async #until(holds: (client: Client) => boolean): Promise<void> {
    const isWaiting = (client: Client): boolean => !client.isOver && !holds(client);
    for (let passed = 0; passed < maxWaitSeconds; passed++) {
      if (!this.clients.some(isWaiting)) return;
      await this.#wait(1);
    }
    for (const { name, last } of this.clients.filter(isWaiting))
      this.faults.push(`${name} waits for ever after ${last ?? "nothing"}`);
  }

  async #wait(seconds: number): Promise<void> {
    for (let passed = 0; passed < seconds; passed++) {
      this.#started.clock.advance(1000);
      await turns(20);
    }
  }

  #begin(name: string): Client {
    const client = new Client(this, `${name} ${this.clients.length}`);
    this.clients.push(client);
    return client;
  }

  async #read(name: string): Promise<void> {
    const client = this.#begin(name);
    const answer = await this.#started.call(name);
    // A call can fail while no node is reachable.
    if (answer.kind === "result" && !client.isOver)
      client.receive([Number(JSON.parse(answer.bytes.toString()) ?? NaN)]);
    client.isOver = true;
  }

  async #subscribe(): Promise<void> {
    const name = "chain_subscribeFinalizedHeads";
    const client = this.#begin(name);
    const { subscriptions } = this.#started.ledger;
    const opened = await subscriptions.open(subscriptions.subscribing.get(name)!, "[]");
    client.start(opened, (head) => [Number((JSON.parse(head) as { number: string }).number)]);
  }

  async #follow(): Promise<void> {
    const client = this.#begin("follow");
    client.start(await this.#started.ledger.follows.open(false), (text) => {
      const { event, finalizedBlockHashes = [] } = JSON.parse(text) as Event;
      const numbers = finalizedBlockHashes.map(Number);
      return event === "initialized" ? numbers.slice(-1) : numbers;
    });
  }
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

const kinds = ["extend", "extend", "finalize", "finalize", "finalize", "catch up", "cut", "leave"];
kinds.push("come back", "come back", "probe", "wait", "read hash", "read hash", "read height");
kinds.push("subscribe", "follow", "follow", "close");

/** Each step with its number, and the number of turns of the event loop that follow. */
const steps = fc.array(
  fc.tuple(fc.constantFrom(...kinds), fc.nat(1000), fc.constantFrom(0, 0, 1, 1, 2, 4, 8)),
  { minLength: 20, maxLength: 80 },
);
/** The nodes that are away when the gateway starts, as a bit mask. */
const away = fc.constantFrom(0, 0, 0, 1, 2, 7);
const count = fc.integer({ min: 2, max: 3 });

test("in random histories, no client gets a finalized block below one that was known before, and none waits for ever", async () => {
  await fc.assert(
    fc.asyncProperty(count, away, steps, async (nodeCount, mask, history) => {
      const nodes = await Promise.all(Array.from({ length: nodeCount }, () => ChainNode.start()));
      for (const [index, node] of nodes.entries()) {
        node.finalized = 98;
        node.isAway = (mask & (1 << index)) !== 0;
      }
      // The sockets do not follow the manual clock, so no connection may be lost because time has passed.
      const limits = { connectMs: 3_600_000, headersMs: 3_600_000, probeMs, maxLag };
      const started = await startLedger(
        nodes.map(({ url }) => url),
        limits,
      );
      await using pool = new History(nodes, started);
      await started.probed;
      for (const [kind, n, turnCount] of history) {
        await pool.step(kind, n);
        await turns(turnCount);
        assert.deepEqual(pool.faults, []);
      }
      await pool.finish();
      assert.deepEqual(pool.faults, []);
    }),
    { numRuns: 100, seed: 23, endOnFailure: true },
  );
});
