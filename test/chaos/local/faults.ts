/** The faults of the campaign: each breaks something between one gateway and PostgreSQL, and repairs it. */
import { setTimeout as wait } from "node:timers/promises";
import type { FaultProxy } from "../../store/fault-proxy.ts";
import type { PostgresServer } from "../../store/postgres-server.ts";

/** The parts that a fault may break. */
export interface Target {
  readonly postgres: PostgresServer;
  /** The proxy that the gateway uses. */
  readonly proxy: () => FaultProxy;
  /** Kills the gateway (SIGKILL). */
  readonly killGateway: () => Promise<void>;
  readonly startGateway: () => Promise<void>;
  /** Stops the gateway (SIGSTOP), and lets it continue after this time in milliseconds. */
  readonly pauseGateway: (ms: number) => Promise<void>;
  /** Resolves when clients have received this number of further answers, or after a few seconds. */
  readonly load: (answers: number) => Promise<void>;
}

/** `some`: a number from 1 to about 100 that differs from round to round. */
export type Fault = (target: Target, some: number) => Promise<void>;

export const faults: Readonly<Record<string, Fault>> = {
  async "kill the gateway"({ killGateway, startGateway }) {
    await killGateway();
    await startGateway();
  },
  // PostgreSQL marks a gateway as silent after 10 seconds.
  "pause the gateway": ({ pauseGateway }, some) => pauseGateway(some % 2 === 0 ? 1_000 : 12_000),
  async "keep the gateway down while it counts as silent"({ killGateway, startGateway }) {
    await killGateway();
    await wait(11_500);
    await startGateway();
  },
  async "kill PostgreSQL"({ postgres, load }, some) {
    await postgres.kill();
    await load(some);
    await postgres.restart();
  },
  async "kill both"({ postgres, killGateway, startGateway }) {
    await Promise.all([postgres.kill(), killGateway()]);
    await postgres.restart();
    await startGateway();
  },
  async "drop replies of COMMIT"({ proxy, load }, some) {
    const before = proxy().dropped;
    const wanted = 1 + (some % 3);
    proxy().repliesToDrop = wanted;
    while (proxy().dropped < before + wanted) await load(5);
  },
  async "drop a reply, then kill the gateway"({ proxy, load, killGateway, startGateway }) {
    const used = proxy();
    const before = used.dropped;
    used.repliesToDrop = 1;
    while (used.dropped === before) await load(5);
    await killGateway();
    await startGateway();
  },
  async "reset connections"({ proxy, load }, some) {
    proxy().reset();
    await load(some);
    proxy().reset();
  },
  async "stall, then reset"({ proxy, load }, some) {
    const used = proxy();
    used.stalled = some % 2 === 0 ? "up" : "down";
    await load(some);
    used.stalled = "none";
    used.reset();
  },
};
