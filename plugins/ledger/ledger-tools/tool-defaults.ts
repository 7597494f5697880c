/**
 * The defaults and checks that the tools share. The schema checks hexadecimal strings for `0x` and hex digits
 * (GATEWAY_SCHEMA_VIOLATION), the functions here for whole bytes of the expected number (GATEWAY_INVALID_PARAMS,
 * decisions.md section 6).
 */
import type { JsonSchema } from "sluice-gateway/plugin";
import { toolFailure, type ToolAnnotations, type ToolFailure } from "sluice-gateway/services";

export const capability = "ledger:read";

export const readsChain = (
  title: string,
): { readonly capability: typeof capability; readonly annotations: ToolAnnotations } => ({
  capability,
  annotations: { title, readOnlyHint: true, openWorldHint: true },
});

/** The input that the specification's table calls "none: empty object". */
export const noInput = { type: "object", properties: {}, additionalProperties: false } as const;

export function hexSchema(description: string): JsonSchema {
  return { type: "string", pattern: "^0x[0-9a-fA-F]*$", description };
}

export function hexFault(name: string, hex: string): ToolFailure | undefined {
  if (hex.length % 2 === 0) return undefined;
  return toolFailure("GATEWAY_INVALID_PARAMS", `${name}: an odd number of hex digits`);
}

const blockHashLength = 2 + 64;

/** A missing hash is valid. */
export function blockHashFault(name: string, hash: string | undefined): ToolFailure | undefined {
  if (hash === undefined || hash.length === blockHashLength) return undefined;
  return (
    hexFault(name, hash) ??
    toolFailure(
      "GATEWAY_INVALID_PARAMS",
      `${name}: a block hash has 32 bytes, 0x and 64 hex digits`,
    )
  );
}
