import type { Agent } from "node:http";
import type { ChargeComparison } from "./charge-comparison.ts";
import type { SoakedGateway } from "./gateway.ts";
import type { Random } from "./random.ts";

export interface ClientContext {
  readonly gateway: SoakedGateway;
  readonly book: ChargeComparison;
  readonly workerRoot: string;
  /** Pauses are multiplied by `factor`, which limits the load. */
  readonly pace: { factor: number };
  readonly signal: AbortSignal;
}

export interface SoakClient extends ClientContext {
  readonly name: string;
  readonly random: Random;
  readonly agent: Agent;
  count: number;
}
