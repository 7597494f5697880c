/** What all tools that read the chain have in common. */
import type { ToolAnnotations } from "sluice-gateway/plugin";

/** The chain is the outside world; reading it changes nothing. */
export const readsChain = (title: string): ToolAnnotations => ({
  title,
  readOnlyHint: true,
  openWorldHint: true,
});

/** "none: empty object" in the specification's table of inputs. */
export const noInput = { type: "object", properties: {}, additionalProperties: false } as const;

export const capability = "ledger:read";
