/** Reads the form for a new key, and decides which capabilities a viewer may grant. */
import { capabilities, type Capability } from "sluice-gateway/services";
import { checker } from "./input.ts";

export interface WantedKey {
  readonly workspace_id: string;
  readonly name: string;
  readonly capabilities: readonly Capability[];
  readonly rps_limit?: number;
  readonly cu_limit_24h_milli?: number;
  readonly cu_limit_30d_milli?: number;
  readonly allowed_addresses?: readonly string[];
  readonly expires_in_seconds?: number;
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

const checkWantedKey = checker({
  type: "object",
  properties: {
    workspace_id: { type: "string", minLength: 1, maxLength: 64 },
    ...keyMembers,
  },
  required: ["workspace_id", "name", "capabilities"],
  additionalProperties: false,
});

const nullable = (schema: object): object => ({ anyOf: [schema, { type: "null" }] });
const { name, capabilities: capabilityList, ...limits } = keyMembers;

const checkKeyChange = checker({
  type: "object",
  properties: {
    name,
    capabilities: capabilityList,
    rps_limit: nullable(limits.rps_limit),
    cu_limit_24h_milli: nullable(amount),
    cu_limit_30d_milli: nullable(amount),
    allowed_addresses: nullable(limits.allowed_addresses),
    expires_in_seconds: nullable(limits.expires_in_seconds),
  },
  minProperties: 1,
  additionalProperties: false,
});

const checkOverlap = checker({
  type: "object",
  properties: {
    overlap_seconds: { type: "integer", minimum: 0, maximum: maxOverlapSeconds },
  },
  required: ["overlap_seconds"],
  additionalProperties: false,
});

/** `wrong`: the reason why the body is invalid. */
export function readWantedKey(body: unknown): { value: WantedKey } | { wrong: string } {
  const wrong = checkWantedKey(body);
  // The schema and the type are equivalent.
  return wrong === undefined ? { value: body as WantedKey } : { wrong };
}

/** Members that are missing are not changed. `null` removes a limit. */
export interface KeyChange {
  readonly name?: string;
  readonly capabilities?: readonly Capability[];
  readonly rps_limit?: number | null;
  readonly cu_limit_24h_milli?: number | null;
  readonly cu_limit_30d_milli?: number | null;
  readonly allowed_addresses?: readonly string[] | null;
  readonly expires_in_seconds?: number | null;
}

/** `wrong`: the reason why the body is invalid. */
export function readKeyChange(body: unknown): { value: KeyChange } | { wrong: string } {
  const wrong = checkKeyChange(body);
  // The schema and the type are equivalent.
  return wrong === undefined ? { value: body as KeyChange } : { wrong };
}

/** Reads how long the old key remains valid, in milliseconds. */
export function readOverlapMs(body: unknown): { value: number } | { wrong: string } {
  const wrong = checkOverlap(body);
  if (wrong !== undefined) return { wrong };
  // The schema has checked the type.
  return { value: (body as { readonly overlap_seconds: number }).overlap_seconds * 1000 };
}

/**
 * Returns true if a viewer may grant these capabilities. Only a platform administrator may grant capabilities for the
 * whole deployment. `only`: workspace of the viewer, undefined for a platform administrator.
 */
export function mayGrant(only: string | undefined, wanted: Iterable<Capability>): boolean {
  return only === undefined || ![...wanted].includes("platform:admin");
}
