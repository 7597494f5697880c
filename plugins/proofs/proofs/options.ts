import type { JsonSchema, SectionFault } from "sluice-gateway/plugin";
import type { Checkpoint } from "./finalized-chain.ts";

/** decisions.md section 18. */
export const modes = ["off", "prefer", "require"] as const;
export type Mode = (typeof modes)[number];

export interface RelayOptions {
  readonly upstream: string;
  readonly parachain: number;
}

export interface Options {
  readonly upstreams: Readonly<
    Record<
      string,
      {
        readonly checkpoint?: Checkpoint;
        readonly relay?: RelayOptions;
        readonly proof: Mode;
      } | null
    >
  >;
}

export const proofSchema: JsonSchema = {
  type: "string",
  enum: [...modes],
  default: "off",
  description:
    "Whether reads are proved. prefer: where possible; require: others are refused. Clients can ask for more with X-Sluice-Proof.",
};

const hash: JsonSchema = { type: "string", pattern: "^0x[0-9a-fA-F]{64}$" };

export const checkpointSchema: JsonSchema = {
  type: "object",
  description:
    "A finalized block that you trust. From it on, the gateway proves the finalized head of the nodes by GRANDPA justifications. sluice verify --head prints a new one.",
  additionalProperties: false,
  required: ["number", "hash", "setId", "authorities"],
  properties: {
    number: { type: "integer", minimum: 0, maximum: 4_294_967_295, description: "Its number." },
    hash: { ...hash, description: "Its hash." },
    setId: {
      type: "integer",
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "Id of the authority set that finalizes the block after it.",
    },
    authorities: {
      type: "array",
      minItems: 1,
      description: "Ed25519 public keys of that set, with their weights.",
      items: {
        type: "array",
        minItems: 2,
        maxItems: 2,
        prefixItems: [hash, { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER }],
      },
    },
  },
};

export const relaySchema: JsonSchema = {
  type: "object",
  description:
    "For a parachain, in place of `checkpoint`: its finalized head is proved by the state of its relay chain.",
  additionalProperties: false,
  required: ["upstream", "parachain"],
  properties: {
    upstream: {
      type: "string",
      description: "The upstream of the relay chain, which has a checkpoint.",
    },
    parachain: {
      type: "integer",
      minimum: 0,
      maximum: 4_294_967_295,
      description: "The id of the parachain.",
    },
  },
};

/** Finds entries whose relay chain cannot prove anything. */
export function relayFaults({ upstreams }: Options): readonly SectionFault[] {
  return Object.entries(upstreams).flatMap(([name, entry]) => {
    if (entry?.relay === undefined) return [];
    const { upstream } = entry.relay;
    const relay = Object.hasOwn(upstreams, upstream) ? upstreams[upstream] : undefined;
    if (entry.checkpoint === undefined && relay?.checkpoint !== undefined) return [];
    const message =
      entry.checkpoint === undefined
        ? `the upstream "${upstream}" has no checkpoint, so it proves nothing`
        : "expected a checkpoint or a relay chain, not both";
    return [{ pointer: `/upstreams/${name}/relay`, code: "SLUICE_VALUE_CHOICE", message }];
  });
}
