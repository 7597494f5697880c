import { capabilities, type Capability, type KeySettings } from "sluice-gateway/services";
import { body } from "./input.ts";

/** `None`: `null` if a form can remove limits. */
interface KeyLimits<None extends null> {
  readonly rps_limit?: number | None;
  readonly cu_limit_24h_milli?: number | None;
  readonly cu_limit_30d_milli?: number | None;
  readonly allowed_addresses?: readonly string[] | None;
  readonly expires_in_seconds?: number | None;
}

interface WantedKey extends KeyLimits<never> {
  readonly workspace_id: string;
  readonly name: string;
  readonly capabilities: readonly Capability[];
}

/** Members that are missing are not changed. `null` removes a limit. */
interface KeyChange extends KeyLimits<null> {
  readonly name?: string;
  readonly capabilities?: readonly Capability[];
}

const amount = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
/** A century. */
const maxSeconds = 36_525 * 86_400;
const maxOverlapSeconds = 90 * 86_400;

const keyMembers = {
  name: { type: "string", minLength: 1, maxLength: 200, format: "printable" },
  capabilities: {
    type: "array",
    items: { enum: capabilities },
    minItems: 1,
    uniqueItems: true,
  },
  rps_limit: { type: "number", minimum: 0.001, maximum: 1_000_000 },
  cu_limit_24h_milli: amount,
  cu_limit_30d_milli: amount,
  allowed_addresses: {
    type: "array",
    items: { type: "string", format: "address-block" },
    minItems: 1,
    maxItems: 100,
    uniqueItems: true,
  },
  expires_in_seconds: { type: "integer", minimum: 1, maximum: maxSeconds },
};

export const readWantedKey = body<WantedKey>(["workspace_id", "name", "capabilities"], {
  workspace_id: { type: "string", minLength: 1, maxLength: 64 },
  ...keyMembers,
});

const { name, capabilities: capabilityList, ...limits } = keyMembers;
const limitsOrNull = Object.entries(limits).map(([limit, schema]): [string, object] => [
  limit,
  { anyOf: [schema, { type: "null" }] },
]);

export const readKeyChange = body<KeyChange>(
  [],
  { name, capabilities: capabilityList, ...Object.fromEntries(limitsOrNull) },
  { minProperties: 1 },
);

export const readRotation = body<{ readonly overlap_seconds: number }>(["overlap_seconds"], {
  overlap_seconds: { type: "integer", minimum: 0, maximum: maxOverlapSeconds },
});

type Limits<None> = {
  readonly [Limit in Exclude<keyof KeySettings, "name" | "capabilities">]:
    | NonNullable<KeySettings[Limit]>
    | None
    | undefined;
};

/** `at`: milliseconds since 1970, from which the lifetime of the key counts. */
export function limitsOf<None extends null>(wanted: KeyLimits<None>, at: number): Limits<None> {
  const { expires_in_seconds: expiresIn } = wanted;
  return {
    rpsLimit: wanted.rps_limit,
    cuLimit24hMilli: wanted.cu_limit_24h_milli,
    cuLimit30dMilli: wanted.cu_limit_30d_milli,
    allowedAddresses: wanted.allowed_addresses,
    expiresAt: typeof expiresIn === "number" ? at + expiresIn * 1000 : expiresIn,
  };
}

/** Only a platform administrator (`only` is undefined) may grant capabilities for the whole deployment. */
export function mayGrant(only: string | undefined, wanted: Iterable<Capability>): boolean {
  return only === undefined || ![...wanted].includes("platform:admin");
}
