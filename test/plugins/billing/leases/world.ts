/** Replicas, one ledger and a bad network, moved step by step. The witness checks the invariants after each step. */
import assert from "node:assert/strict";
import {
  unlimitedMilliCu,
  type LeaseReply,
  type LeaseRequest,
  type PostRequest,
  type ReplicaStatus,
} from "../../../../plugins/billing/leases/ledger.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import type { Message, Reply } from "../../../../plugins/billing/leases/replica-messages.ts";
import { periodOf } from "../../../../plugins/billing/leases/months.ts";
import {
  dayWindow,
  monthWindow,
  RollingWindow,
  type WindowShape,
} from "../../../../plugins/billing/metering/windows.ts";
import { drop, keyIds, Witness, type Opened, type Process } from "./witness.ts";

const line = { surface: "chat", method: "completions", costMilliCu: 0 };

export interface Parts {
  readonly ledger: (now: () => number) => MemoryLedger;
  readonly replica: (name: string) => LedgerReplica;
}

export const correctParts: Parts = {
  ledger: (now) => new MemoryLedger(now),
  replica: (name) => new LedgerReplica(name, "settled"),
};

interface Packet {
  readonly process: Process;
  readonly message?: Message;
  readonly reply?: Reply;
  readonly sentAt: number;
}

export interface WorldOptions {
  readonly replicas: number;
  readonly parts?: Parts;
}

export class World extends Witness {
  readonly #parts: Parts;
  network: Packet[] = [];
  #counter = 0;

  constructor({ replicas, parts = correctParts }: WorldOptions) {
    super(parts.ledger);
    this.#parts = parts;
    this.setLimits("ws_1", {
      kind: "workspace",
      includedMilliCu: 600,
      purchasedMilliCu: 300,
      overageMilliCu: 200,
    });
    this.setLimits("ws_2", {
      kind: "workspace",
      includedMilliCu: 200,
      purchasedMilliCu: 0,
      overageMilliCu: unlimitedMilliCu,
    });
    this.setLimits("key_a", { kind: "key", dayMilliCu: 400, monthMilliCu: 900 });
    this.setLimits("key_c", { kind: "key", dayMilliCu: unlimitedMilliCu, monthMilliCu: 500 });
    for (let place = 0; place < replicas; place++) this.start(place);
  }

  start(place: number): void {
    const name = `replica ${place}`;
    const replica = this.#parts.replica(name);
    this.processes[place] = { replica, name, isPaused: false, open: [] };
  }

  crash(place: number): void {
    const process = this.process(place);
    this.network = this.network.filter(
      (packet) => packet.process !== process || packet.message !== undefined,
    );
    this.start(place);
  }

  process(place: number): Process {
    return this.processes[place % this.processes.length]!;
  }

  reserve(place: number, key: number, costMilliCu: number, isForced = false): void {
    const process = this.process(place);
    if (process.isPaused) return;
    const account = this.account(keyIds[key % keyIds.length]!);
    const reservation = process.replica.reserve(this.now, account, costMilliCu, isForced);
    const opened: Opened = { reservation, process, ids: [], couldBeRefused: false };
    this.opened.set(reservation, opened);
    reservation.onChange = () => this.notice(opened);
    this.noteUse(opened);
    if (reservation.state === "refused") this.checkRemembered(opened);
    else process.open.push(opened);
    this.counters.reserved++;
  }

  /** Ends one open reservation of a process. `shares`: percent of its cost per charge. */
  settle(place: number, which: number, shares: readonly number[]): void {
    const process = this.process(place);
    if (process.isPaused) return;
    const ready = process.open.filter(({ reservation }) => reservation.state === "open");
    const opened = ready[which % Math.max(1, ready.length)];
    if (opened === undefined) return;
    const lines = shares.map((share) => ({
      about: { requestId: `${++this.#counter}` },
      line: { ...line, costMilliCu: Math.floor((opened.reservation.costMilliCu * share) / 100) },
    }));
    opened.ids = lines.map(({ about }) => about.requestId);
    process.replica.settle(this.now, opened.reservation, lines);
    if (opened.reservation.state !== "open" || lines.length === 0) drop(process.open, opened);
  }

  release(place: number, which: number): void {
    const process = this.process(place);
    if (process.isPaused) return;
    const ready = process.open.filter(({ ids }) => ids.length === 0);
    const opened = ready[which % Math.max(1, ready.length)];
    if (opened === undefined) return;
    process.replica.release(opened.reservation);
    drop(process.open, opened);
  }

  send(place: number): void {
    const process = this.process(place);
    if (process.isPaused) return;
    for (const message of process.replica.messages(this.now))
      this.network.push({ process, message, sentAt: this.now });
  }

  /** Delivers one packet of the network. With `keep` it stays there and will be delivered again. */
  deliver(which: number, keep = false): void {
    const at = which % Math.max(1, this.network.length);
    const packet = this.network[at];
    if (packet === undefined) return;
    const { process, message, reply } = packet;
    if (reply !== undefined && process.isPaused) return;
    if (!keep) this.network.splice(at, 1);
    if (message !== undefined)
      this.network.push({ process, reply: this.#ask(message), sentAt: this.now });
    if (reply !== undefined && this.processes.includes(process)) {
      process.replica.receive(this.now, reply);
    }
  }

  lose(which: number): void {
    if (this.network.length > 0) this.network.splice(which % this.network.length, 1);
  }

  /** Lets time pass in a network that delivers within 10 ms. All processes send at least every 5 ms. */
  flow(ms: number): void {
    for (let passed = 0; passed < ms; passed += 5) {
      this.now += 5;
      for (const place of this.processes.keys()) this.send(place);
      for (let at = 0; at < this.network.length;) {
        const { sentAt, process } = this.network[at]!;
        if (this.now - sentAt < 10 || process.isPaused) at++;
        else this.deliver(at);
      }
      this.check();
    }
  }

  exchange(place: number): void {
    this.send(place);
    const process = this.process(place);
    for (let at = 0; at < this.network.length;) {
      if (this.network[at]?.process === process && !process.isPaused) this.deliver(at);
      else at++;
    }
  }

  #ask(message: Message): Reply {
    const { ledger } = this;
    const { no, kind } = message;
    if (kind === "lease") return { no, kind, reply: this.#lease(message.request) };
    if (kind === "post") return { no, kind, reply: this.#post(message.request) };
    if (kind === "register") {
      return { no, kind, reply: ledger.register(message.name, message.mode) };
    }
    if (kind === "feed") return { no, kind, reply: ledger.feed(message.replica) };
    if (kind === "leave") return { no, kind, reply: ledger.leave(message.replica) };
    const reply = ledger.fence(message.replica);
    this.counters.fenced += reply.length;
    return { no, kind, reply };
  }

  #post(request: PostRequest): ReplicaStatus {
    const { posted } = this.ledger.status(request.replica);
    const reply = this.ledger.post(request);
    if (reply.posted > posted) for (const charge of request.charges) this.count(charge);
    return reply;
  }

  #lease(request: LeaseRequest): LeaseReply {
    const before = new Map(request.wants.map(({ scope }) => [scope, this.grantedAt(scope)]));
    const reply = this.ledger.lease(request);
    for (const { scope, limits } of request.wants) {
      this.checkGrant(scope, limits, before.get(scope) ?? 0);
    }
    this.counters.recalls +=
      reply.granted?.filter(({ reached }) => reached !== undefined).length ?? 0;
    return reply;
  }

  pass(ms: number, stepMs: number): void {
    for (let passed = 0; passed < ms; passed += stepMs) {
      this.now += stepMs;
      for (const place of this.processes.keys()) this.exchange(place);
      this.check();
    }
  }

  /** Runs a step, and then restores the ledger from a backup that was made before it. */
  restoreBefore(happens: () => void): void {
    const replicas = structuredClone(this.ledger.replicas);
    const accepted = this.charges.length;
    const scopes = Array.from(this.ledger.scopes, ([id, { day: _, month: __, ...scope }]) => {
      const windows = {
        day: this.#windowOf(id, dayWindow),
        month: this.#windowOf(id, monthWindow),
      };
      return [id, { ...structuredClone(scope), ...windows }] as const;
    });
    happens();
    for (const lost of this.charges.splice(accepted))
      this.charged.delete(lost.details.about.requestId);
    this.ledger.replicas.clear();
    for (const [replica, row] of replicas) this.ledger.replicas.set(replica, row);
    this.ledger.scopes.clear();
    for (const [id, scope] of scopes) this.ledger.scopes.set(id, scope);
  }

  /** Returns a window with the charges of a key. */
  #windowOf(keyId: string, shape: WindowShape): RollingWindow {
    const window = new RollingWindow(shape);
    for (const charge of this.charges) {
      if (charge.keyId === keyId) window.add(charge.postedAt, charge.costMilliCu);
    }
    return window;
  }

  /** Ends the history: all processes return, all reservations end, all replicas leave. Nothing may remain. */
  finish(): void {
    for (const process of this.processes) process.isPaused = false;
    this.flow(600);
    this.pass(13_000, 250);
    for (const [place, process] of this.processes.entries()) {
      const open = [...process.open];
      for (const { reservation, ids } of open) {
        if (ids.length === 0)
          this.release(
            place,
            process.open.findIndex((each) => each.reservation === reservation),
          );
      }
      process.replica.drain();
    }
    this.pass(3_000, 250);
    for (const { replica } of this.processes) assert.ok(replica.isGone, "a replica cannot leave");
    for (const [id, { leases }] of this.ledger.scopes) {
      for (const lease of leases.values()) assert.fail(`${id}: ${lease.granted} is stranded`);
    }
    this.checkSums();
  }

  get untilNextMonth(): number {
    return periodOf(this.now).end - this.now;
  }
}
