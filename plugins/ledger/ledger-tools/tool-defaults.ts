/** Shared parts of the manifests of all tools that read the chain. */
import type { ToolAnnotations } from "sluice-gateway/services";

/** Annotations of a tool that reads the chain: it changes nothing, but depends on the outside world. */
export const readsChain = (title: string): ToolAnnotations => ({
  title,
  readOnlyHint: true,
  openWorldHint: true,
});

/** The input that the specification's table calls "none: empty object". */
export const noInput = { type: "object", properties: {}, additionalProperties: false } as const;

export const capability = "ledger:read";
