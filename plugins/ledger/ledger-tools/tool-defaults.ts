import type { ToolAnnotations } from "sluice-gateway/services";

export const capability = "ledger:read";

export const readsChain = (
  title: string,
): { readonly capability: typeof capability; readonly annotations: ToolAnnotations } => ({
  capability,
  annotations: { title, readOnlyHint: true, openWorldHint: true },
});

/** The input that the specification's table calls "none: empty object". */
export const noInput = { type: "object", properties: {}, additionalProperties: false } as const;
