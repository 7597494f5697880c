import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";
import type { Deployment, Slot } from "./deployment.ts";
import type { Fault, FaultKind, PlannedFault } from "./schedule.ts";
import { now } from "./send.ts";

/**
 * A fenced replica registers and charges again in this time. Its first attempt is held, too, and fails after two
 * seconds, so that the batch arrives after both.
 */
const registrationMs = 4_000;

export interface DoneFault {
  readonly kind: FaultKind;
  /** Name of the affected replica. Undefined if all were affected. */
  readonly replica: string | undefined;
  readonly slot: number | undefined;
  readonly begunAt: number;
  readonly repairedAt: number;
}

/** Runs the faults at their times. Faults of the same server wait for each other, and others may overlap. */
export async function runFaults(
  deployment: Deployment,
  planned: readonly PlannedFault[],
  onFault: (fault: Fault) => void,
): Promise<DoneFault[]> {
  const done: DoneFault[] = [];
  const busy = new Map<string, Promise<void>>();
  const begun = now();
  const running: Promise<void>[] = [];
  for (const { atMs, fault } of planned) {
    await wait(Math.max(0, begun + atMs - now()));
    const server = serverOf(fault);
    const before = busy.get(server) ?? Promise.resolve();
    const run = before.then(async () => {
      onFault(fault);
      const slot = "slot" in fault ? fault.slot : undefined;
      const replica = slot === undefined ? undefined : deployment.slots[slot]?.name;
      const begunAt = now();
      const repairedAt = await breakAndRepair(deployment, fault);
      done.push({ kind: fault.kind, replica, slot, begunAt, repairedAt: repairedAt ?? now() });
    });
    busy.set(server, run);
    running.push(run);
  }
  await Promise.all(running);
  return done;
}

function serverOf(fault: Fault): string {
  if ("slot" in fault) return `replica ${fault.slot}`;
  return fault.kind.endsWith("Redis") ? "Redis" : "PostgreSQL";
}

/** Resolves to the time of the repair, or to undefined if that is the time at which this function returns. */
async function breakAndRepair(deployment: Deployment, fault: Fault): Promise<number | undefined> {
  const { postgres, redis } = deployment;
  switch (fault.kind) {
    case "kill a replica":
      await deployment.kill(fault.slot);
      await wait(fault.forMs);
      return restart(deployment, fault.slot);
    case "set a clock wrong":
      await deployment.kill(fault.slot);
      return restart(deployment, fault.slot, fault.hours);
    case "stop a replica": {
      const { process } = slotOf(deployment, fault.slot);
      process?.child.kill("SIGSTOP");
      await wait(fault.forMs);
      process?.child.kill("SIGCONT");
      return undefined;
    }
    case "drop replies": {
      const { proxy } = slotOf(deployment, fault.slot);
      proxy.dropAfter = fault.of;
      proxy.repliesToDrop = fault.count;
      // There may be no commit, because no client buys anything at this replica.
      for (let turns = 0; turns < 150 && proxy.repliesToDrop > 0; turns++) await wait(20);
      proxy.repliesToDrop = 0;
      return undefined;
    }
    case "stall a connection": {
      const { proxy } = slotOf(deployment, fault.slot);
      proxy.stalled = fault.direction;
      await wait(fault.forMs);
      proxy.stalled = "none";
      proxy.reset();
      return undefined;
    }
    case "deliver a batch late":
    case "deliver a batch twice": {
      const { proxy } = slotOf(deployment, fault.slot);
      proxy.holdAfter = "sluice.credit_post";
      proxy.requestsToHold = 1;
      // The replica may have nothing to post, because it is being killed.
      for (let turns = 0; turns < 150 && proxy.held === 0; turns++) await wait(20);
      proxy.requestsToHold = 0;
      const isLate = fault.kind === "deliver a batch late";
      if (isLate) proxy.stalled = "both";
      await wait(fault.forMs);
      proxy.stalled = "none";
      if (isLate) {
        proxy.requestsToHold = 1;
        proxy.reset();
        await wait(registrationMs);
        proxy.requestsToHold = 0;
      }
      await proxy.release();
      return undefined;
    }
    case "reset connections":
      slotOf(deployment, fault.slot).proxy.reset();
      return undefined;
    case "kill Redis":
      await redis.kill();
      await wait(fault.forMs);
      await redis.start();
      return undefined;
    case "stop Redis":
      redis.signal("SIGSTOP");
      await wait(fault.forMs);
      redis.signal("SIGCONT");
      return undefined;
    case "empty Redis": {
      const client = new Redis(redis.url);
      await client.flushall();
      client.disconnect();
      return undefined;
    }
    case "kill PostgreSQL":
      await postgres.primary.kill();
      await wait(fault.forMs);
      await postgres.primary.restart();
      return undefined;
    case "fail over": {
      await postgres.failOver();
      const repairedAt = now();
      await postgres.addStandby();
      return repairedAt;
    }
    default:
      throw fault satisfies never;
  }
}

/** The time to serve again includes the start of the process. */
async function restart(deployment: Deployment, slot: number, hours = 0): Promise<number> {
  const startedAt = now();
  await deployment.start(slot, hours);
  return startedAt;
}

function slotOf({ slots }: Deployment, slot: number): Slot {
  const found = slots[slot];
  if (found === undefined) throw new RangeError(`no slot ${slot}`);
  return found;
}
