import type { Host, JsonSchema, Upstream } from "sluice-gateway/plugin";
import { durationMs, integerSchema } from "sluice-gateway/internal/toolkit";

/** An entry of the section after validation, with defaults. Undefined members could not be read. */
interface Entry extends Omit<PoolConfig, keyof Upstream | "methods" | "maxHeadAgeMs"> {
  readonly methods: Readonly<Record<string, boolean | MethodRule>>;
  readonly maxHeadAge?: string;
}

export interface Options {
  readonly upstreams: Readonly<Record<string, Entry | null>>;
}

interface MethodRule {
  readonly cuMilli?: number;
  /** Only for subscriptions, whose `cuMilli` is the price to open them. */
  readonly notificationCuMilli?: number;
  readonly params?: readonly string[];
  /** Number of nodes that must give the same answer (default 1). */
  readonly quorum?: number;
}

export interface PoolConfig extends Upstream {
  /** Maps the prefix that clients use to the node's prefix: `ledger_` to `midnight_`. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Changes to the whitelist by method: `false` removes the method, and an object adds it or changes its price. */
  readonly methods: Readonly<Record<string, false | MethodRule>>;
  /** 0 disables the cache. */
  readonly cacheBytes: number;
  readonly singleFlight: boolean;
  /** True if slow reads are also sent to a second node. */
  readonly hedging: boolean;
  readonly batchParallel: number;
  readonly probeMs: number;
  /** Time limit of each call of a probe. It is at most `headersMs`. */
  readonly probeTimeoutMs: number;
  /** Maximum number of blocks that a node may be behind the best node before it is skipped. */
  readonly maxLag: number;
  readonly maxHeadAgeMs: number | undefined;
  readonly answerBytes: number;
}

const mebibyte = 1_048_576;
const day = 86_400_000;

export const nodeMembers: Readonly<Record<string, JsonSchema>> = {
  aliases: {
    type: "object",
    default: {},
    additionalProperties: { type: "string", minLength: 1 },
    description:
      "Maps the prefix that clients use to the node's prefix, such as ledger_ to midnight_.",
  },
  methods: {
    type: "object",
    default: {},
    description:
      "Node methods by name. false removes the method from the whitelist; an object adds it or changes its price.",
    additionalProperties: {
      type: ["boolean", "object"],
      additionalProperties: false,
      properties: {
        cuMilli: {
          type: "integer",
          minimum: 0,
          maximum: 1e12,
          description: "Price in milli-CU. For a subscription, the price to open it.",
        },
        notificationCuMilli: {
          type: "integer",
          minimum: 0,
          maximum: 1e12,
          description: "Price in milli-CU of each notification of a subscription.",
        },
        params: {
          type: "array",
          items: { type: "string", minLength: 1 },
          description: 'Parameter names in order, such as ["storageKey", "blockHash?"].',
        },
        quorum: {
          type: "integer",
          enum: [1, 2],
          description:
            "Number of nodes that must give the same answer to a read (default 1). If two nodes disagree, a third one decides. Writes and the methods that return the finalized head ignore it.",
        },
      },
    },
  },
  cacheBytes: integerSchema(
    64 * mebibyte,
    [0, 1e12],
    "Maximum size of the cache of immutable answers. 0 disables the cache.",
  ),
  singleFlight: {
    type: "boolean",
    default: true,
    description: "Identical concurrent reads share one call to the node.",
  },
  hedging: {
    type: "boolean",
    default: true,
    description:
      "A read that is slower than 95 % of the calls of its method is also sent to a second node, and the first answer is used.",
  },
  batchParallel: integerSchema(
    8,
    [1, 50],
    "Maximum number of calls of one batch that run in parallel.",
  ),
  probeMs: integerSchema(2_000, [100, day], "Interval between two probes of a node."),
  probeTimeoutMs: integerSchema(
    3_000,
    [100, day],
    "Time limit of each call of a probe. A node that answers neither three probes in a row nor calls is not used.",
  ),
  maxLag: integerSchema(
    8,
    [1, 1e9],
    "Maximum number of blocks behind the best node. Nodes further behind are skipped.",
  ),
  maxHeadAge: {
    type: "string",
    format: "short-duration",
    description:
      "Maximum age of a node's head, such as 60s. Nodes with an older head are skipped. By default, the age is not checked.",
  },
  answerBytes: integerSchema(64 * mebibyte, [1_024, 1e9], "Maximum size of an answer from a node."),
};

/** Undefined if there is no usable entry. */
export function poolConfig(
  { upstreams }: Options,
  name: string,
  host: Pick<Host, "use">,
): PoolConfig | undefined {
  const upstream = host.use("upstreams").get(name);
  const entry = Object.hasOwn(upstreams, name) ? upstreams[name] : undefined;
  if (upstream === undefined || entry === undefined || entry === null) return undefined;
  const { methods, maxHeadAge, ...rest } = entry;
  return {
    ...rest,
    ...upstream,
    methods: Object.fromEntries(
      Object.entries(methods).map(([method, rule]) => [method, rule === true ? {} : rule]),
    ),
    maxHeadAgeMs: maxHeadAge === undefined ? undefined : durationMs(maxHeadAge),
  };
}
