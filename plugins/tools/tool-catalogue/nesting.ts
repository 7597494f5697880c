import type { CatalogueEntry, ToolCaller, ToolOutcome } from "sluice-gateway/services";

export interface Nesting {
  /** Number of enclosing calls. */
  readonly depth: number;
  /** Aborted when the enclosing call has ended. This call then fails, even if it has started. */
  readonly stop: AbortSignal | undefined;
}

export interface NestingTools {
  entry(name: string): CatalogueEntry | undefined;
  callAt(
    nesting: Nesting,
    name: string,
    input: unknown,
    caller: ToolCaller,
  ): ToolOutcome | Promise<ToolOutcome>;
}
