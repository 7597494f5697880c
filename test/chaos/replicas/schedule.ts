/** The faults of a campaign and their times. The seed alone decides them. */
import { createRandom } from "../../../bench/soak/random.ts";

/** Faults of the replica at `slot`, or of a server that all replicas use. Times are in milliseconds. */
export type Fault =
  | { readonly kind: "kill a replica"; readonly slot: number; readonly forMs: number }
  | { readonly kind: "stop a replica"; readonly slot: number; readonly forMs: number }
  | { readonly kind: "set a clock wrong"; readonly slot: number; readonly hours: 1 | -1 }
  | {
      readonly kind: "drop replies";
      readonly slot: number;
      /** The replies to statements with this text are dropped. The statements have been executed. */
      readonly of: string;
      readonly count: number;
    }
  | {
      readonly kind: "stall a connection";
      readonly slot: number;
      readonly direction: "up" | "down" | "both";
      readonly forMs: number;
    }
  | { readonly kind: "reset connections"; readonly slot: number }
  // A batch of charges reaches the server after this time. Meanwhile, its replica cannot reach the server at all, so
  // that it is fenced, or it sends the batch again.
  | { readonly kind: "deliver a batch late"; readonly slot: number; readonly forMs: number }
  | { readonly kind: "deliver a batch twice"; readonly slot: number; readonly forMs: number }
  | { readonly kind: "kill Redis"; readonly forMs: number }
  | { readonly kind: "stop Redis"; readonly forMs: number }
  | { readonly kind: "empty Redis" }
  | { readonly kind: "kill PostgreSQL"; readonly forMs: number }
  | { readonly kind: "fail over" };

export type FaultKind = Fault["kind"];

export interface PlannedFault {
  /** Time since the start of the campaign in milliseconds. */
  readonly atMs: number;
  readonly fault: Fault;
}

/** Number of faults of each kind in a round. All faults of a round run before the next round begins. */
type Rounds = Readonly<Partial<Record<FaultKind, number>>>;

const allFaults = {
  "kill a replica": 4,
  "stop a replica": 4,
  "set a clock wrong": 1,
  "drop replies": 3,
  "stall a connection": 2,
  "reset connections": 2,
  "deliver a batch late": 1,
  "deliver a batch twice": 1,
  "kill Redis": 1,
  "stop Redis": 1,
  "empty Redis": 1,
  "kill PostgreSQL": 1,
  "fail over": 1,
} as const satisfies Required<Rounds>;

/** Faults that show whether a batch of charges counts once, and never after its replica was fenced. */
const faultsOfPosts: Rounds = {
  "drop replies": 4,
  "deliver a batch late": 3,
  "deliver a batch twice": 2,
  "stop a replica": 1,
};

export const faultSets = { all: allFaults, posts: faultsOfPosts } as const;
export type FaultSet = keyof typeof faultSets;

const gapMs = { least: 2_000, range: 3_000 };

export function planFaults(
  seed: number,
  durationMs: number,
  replicas: number,
  set: FaultSet = "all",
): PlannedFault[] {
  const perRound: [FaultKind, number][] = Object.entries(faultSets[set]) as never;
  const random = createRandom(seed);
  const planned: PlannedFault[] = [];
  let left: FaultKind[] = [];
  const gap = (): number => gapMs.least + random.int(gapMs.range);
  for (let atMs = gap(); atMs < durationMs; atMs += gap()) {
    if (left.length === 0) left = perRound.flatMap(([kind, count]) => Array(count).fill(kind));
    const [kind = "empty Redis"] = left.splice(random.int(left.length), 1);
    planned.push({ atMs, fault: detailed(kind) });
  }
  return planned;

  function detailed(kind: FaultKind): Fault {
    const slot = random.int(replicas);
    switch (kind) {
      case "kill a replica":
        return { kind, slot, forMs: random.int(3_000) };
      case "stop a replica":
        // A replica is fenced after 10 seconds of silence.
        return { kind, slot, forMs: random.pick([300, 1_500, 4_000, 11_000, 14_000]) };
      case "set a clock wrong":
        return { kind, slot, hours: random.pick([1, -1]) };
      case "drop replies": {
        const of = random.pick(["sluice.credit_post", "SET lease_no", "COMMIT"]);
        return { kind, slot, of, count: 1 + random.int(3) };
      }
      case "stall a connection": {
        const direction = random.pick(["up", "down", "both"] as const);
        return { kind, slot, direction, forMs: 500 + random.int(random.pick([1_500, 12_000])) };
      }
      case "reset connections":
        return { kind, slot };
      case "deliver a batch late":
        return { kind, slot, forMs: 11_000 + random.int(2_000) };
      case "deliver a batch twice":
        // A replica sends a batch again after two seconds without a reply.
        return { kind, slot, forMs: 2_500 + random.int(2_000) };
      case "kill Redis":
      case "stop Redis":
      case "kill PostgreSQL":
        return { kind, forMs: random.int(3_000) };
      case "empty Redis":
      case "fail over":
        return { kind };
      default:
        throw kind satisfies never;
    }
  }
}
