/** Shared parts of the manifests of all tools that read the chain. */
import type { ToolAnnotations } from "sluice-gateway/services";

export const capability = "ledger:read";

/** The members of a tool that reads the chain: it changes nothing, but depends on the outside world. */
export const readsChain = (
  title: string,
): { readonly capability: typeof capability; readonly annotations: ToolAnnotations } => ({
  capability,
  annotations: { title, readOnlyHint: true, openWorldHint: true },
});

/** The input that the specification's table calls "none: empty object". */
export const noInput = { type: "object", properties: {}, additionalProperties: false } as const;
