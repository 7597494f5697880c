/** The faults of the campaign: each breaks something between the gateway and PostgreSQL, and repairs it. */
import type { FaultProxy } from "../../store/fault-proxy.ts";
import type { PostgresServer } from "../../store/postgres-server.ts";

/** The parts that a fault may break. */
export interface Target {
  readonly postgres: PostgresServer;
  /** The proxy that the running gateway uses. */
  readonly proxy: () => FaultProxy;
  /** Kills the gateway (SIGKILL). */
  readonly killGateway: () => Promise<void>;
  readonly startGateway: () => Promise<void>;
  /** Resolves when clients have received this number of further answers. */
  readonly load: (answers: number) => Promise<void>;
}

/** `some`: a number from 1 to about 100 that differs from round to round. */
export type Fault = (target: Target, some: number) => Promise<void>;

export const faults: Readonly<Record<string, Fault>> = {
  async "kill the gateway"({ killGateway, startGateway }) {
    await killGateway();
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
