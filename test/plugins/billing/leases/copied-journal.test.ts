/** Two starts on copies of one journal: only the newer one is accepted, and only if its copy is complete. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JournalLane } from "../../../../plugins/billing/leases/journal-lane.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { LedgerReplica } from "../../../../plugins/billing/leases/replica.ts";
import type { Message, Reply } from "../../../../plugins/billing/leases/replica-messages.ts";
import { Disk } from "./disk.ts";

const account = {
  keyId: "key_1",
  keyLimits: undefined,
  workspaceId: "ws_1",
  workspaceLimits: {
    kind: "workspace",
    includedMilliCu: 1_000,
    purchasedMilliCu: 0,
    overageMilliCu: 0,
  },
  hasOverage: false,
} as const;
const line = {
  costMilliCu: 10,
  details: {
    surface: "ledger-rpc",
    method: "state_call",
    model: null,
    request_id: "a",
    input_tokens: 0,
    output_tokens: 0,
    estimated: false,
    outcome: "complete",
  },
} as const;

/** A ledger in memory, and replicas that reach it at once. */
function setUp(): {
  readonly ledger: MemoryLedger;
  start(disk: Disk, lastStart: number): LedgerReplica;
  /** Lets time pass while a replica exchanges messages with the ledger. */
  pass(replica: LedgerReplica, ms: number): void;
  now(): number;
} {
  let now = Date.UTC(2026, 0, 15);
  let lastNumber = 2 ** 47;
  const ledger = new MemoryLedger(() => now);
  const ask = (message: Message): Reply => {
    const { no } = message;
    switch (message.kind) {
      case "register":
        return {
          no,
          kind: "register",
          reply: ledger.register(message.name, message.mode, message.start),
        };
      case "feed":
        return { no, kind: "feed", reply: ledger.feed(message.replica) };
      case "lease":
        return { no, kind: "lease", reply: ledger.lease(message.request) };
      case "post":
        return { no, kind: "post", reply: ledger.post(message.request) };
      case "fence":
        return { no, kind: "fence", reply: ledger.fence(message.replica) };
      case "leave":
      default:
        return { no, kind: "leave", reply: ledger.leave(message.replica) };
    }
  };
  return {
    ledger,
    now: () => now,
    start(disk, lastStart) {
      const pickNumber = (): number => ++lastNumber;
      const lane = new JournalLane({ journal: disk, lastStart, onChange() {}, pickNumber });
      return new LedgerReplica("gateway", "local", lane);
    },
    pass(replica, ms) {
      for (let passed = 0; passed < ms; passed += 50) {
        for (const message of replica.messages(now)) replica.receive(now, ask(message));
        now += 50;
      }
    },
  };
}

function copyOf(disk: Disk, commits = disk.commits.length): Disk {
  const copy = new Disk(disk.id);
  copy.commits.push(...disk.commits.slice(0, commits));
  return copy;
}

test("reservations of a gateway that was replaced are refused, and do not wait without end", () => {
  const world = setUp();
  const disk = new Disk("journal");
  const older = world.start(disk, 0);
  world.pass(older, 200);
  const newer = world.start(copyOf(disk), 1);
  world.pass(newer, 200);
  const waiting = older.reserve(world.now(), account, 10);
  assert.equal(waiting.state, "waiting");
  world.pass(older, 5_000);
  assert.ok(older.isReplaced);
  assert.equal(waiting.state, "unavailable");
});

test("a start on a copy that lacks the last charges of its journal is refused", () => {
  const world = setUp();
  const disk = new Disk("journal");
  const original = world.start(disk, 0);
  world.pass(original, 200);
  for (let charge = 0; charge < 3; charge++) {
    const reservation = original.reserve(world.now(), account, 10);
    world.pass(original, 200);
    original.settle(world.now(), reservation, [line]);
    disk.sync();
    world.pass(original, 400);
  }
  assert.equal(world.ledger.charges.length, 3);
  const late = world.start(copyOf(disk, 1), 1);
  world.pass(late, 500);
  assert.ok(late.isReplaced);
  assert.ok(!late.isAvailable(world.now()));
  assert.ok(original.isAvailable(world.now()));
});

test("the number of charges that wait is known during a long outage", () => {
  const disk = new Disk("journal");
  const lane = new JournalLane({ journal: disk, lastStart: 0, onChange() {} });
  const { start } = lane;
  assert.notEqual(start, "later");
  lane.registered(0);
  const world = setUp();
  const reservation = world.start(new Disk("another"), 0).reserve(world.now(), account, 10);
  const charges = Array.from({ length: 2 }, () => ({}) as Disk["commits"][number]);
  lane.add({ reservation, charges }, 0);
  lane.add({ reservation, charges }, 0);
  disk.sync();
  assert.equal(lane.queuedCharges, 4);
  lane.request(0);
  lane.receive(0, { state: "live", posted: 4, leaseNo: 0, time: 0 });
  assert.equal(lane.queuedCharges, 0);
});
