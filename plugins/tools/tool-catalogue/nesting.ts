/** Calls of tools by other tools. */
import type { CatalogueEntry, ToolCaller, ToolOutcome } from "sluice-gateway/services";

/** The position of a call in the calls of other tools. */
export interface Nesting {
  /** Number of enclosing calls. */
  readonly depth: number;
  /** Aborted when the enclosing call has ended. This call then fails, even if it has started. */
  readonly stop: AbortSignal | undefined;
}

/** The catalogue for the code of tools: calls carry their nesting. */
export interface NestingTools {
  entry(name: string): CatalogueEntry | undefined;
  callAt(
    nesting: Nesting,
    name: string,
    input: unknown,
    caller: ToolCaller,
  ): ToolOutcome | Promise<ToolOutcome>;
}
