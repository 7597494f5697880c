/**
 * Hexadecimal in the inputs of tools. That it is a string of `0x` and hex digits is the schema's affair
 * (GATEWAY_SCHEMA_VIOLATION); that the digits make whole bytes, as many as are wanted, is told apart here
 * (GATEWAY_INVALID_PARAMS, decisions.md section 6).
 */
import { toolFailure, type JsonSchema, type ToolFailure } from "sluice-gateway/plugin";

export function hexSchema(description: string): JsonSchema {
  return { type: "string", pattern: "^0x[0-9a-fA-F]*$", description };
}

/** What speaks against a string of the schema above as bytes. */
export function hexFault(name: string, hex: string): ToolFailure | undefined {
  if (hex.length % 2 === 0) return undefined;
  return toolFailure("GATEWAY_INVALID_PARAMS", `${name}: an odd number of hex digits`);
}

/** `0x` and 32 bytes. */
const blockHashLength = 2 + 64;

/** What speaks against it as a block's hash; none is given where a tool may do without. */
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
