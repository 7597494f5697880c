/**
 * The service `tool-catalogue`: the tools, documents and prompts of all `tools` plugins, which all tool surfaces share
 * (`/mcp`, `/rpc`, discovery, `gateway_batch`). Implemented in plugins/tools/tool-catalogue.
 */
import type { CallReporter, TraceSpan } from "sluice-gateway/plugin";
import type { Charge } from "./meter.ts";
import type { KeyPrincipal } from "./principal.ts";
import type { Prompt, Resource, ResourceTemplate } from "./tool-document.ts";
import type { Dialogue, ToolOutcome } from "./tool-result.ts";
import type { CatalogueEntry, LogLevel, Tool } from "./tool.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "tool-catalogue": Tools;
  }
  interface ToolsHooks {
    /**
     * The tools of the plugin. They can change later: the catalogue reads this member for every request and call.
     * Objects that were in the list before are not read again, and new objects are compared with the previous ones. If
     * tools of two plugins have the same name, the tool of the plugin that pipeline.yaml lists first is used.
     */
    readonly tools: readonly Tool<never>[];
    readonly resources?: readonly Resource[];
    readonly resourceTemplates?: readonly ResourceTemplate[];
    readonly prompts?: readonly Prompt[];
    /**
     * Called with one sentence for each invalid tool, resource or prompt, which is then missing. Without this member,
     * an invalid entry at the start prevents pipeline.yaml from being loaded, and a later one is logged. This member
     * is for plugins whose tools come from other servers.
     */
    readonly onInvalid?: (problem: string) => void;
  }
}

export interface ToolCaller {
  readonly principal: KeyPrincipal;
  readonly requestId: string;
  /** The account of the exchange. Each call opens a part of it. */
  readonly charge: Charge;
  /**
   * Aborted when the caller has disconnected. Calls that have not started are then skipped; calls that have started
   * run to the end. An exchange can be passed as it is (`signal: x`), which saves the creation of an AbortSignal.
   */
  readonly signal: Pick<AbortSignal, "aborted">;
  readonly progress?: (done: number, total?: number, message?: string) => void;
  readonly log?: (level: LogLevel, data: unknown) => void;
  /**
   * The confirmation token of the second call of a write tool, if the transport sends it outside the input. The token
   * can also be sent in the member `confirmation_token` of the input.
   */
  readonly confirmationToken?: string | undefined;
  readonly dialogue?: Dialogue | undefined;
  /** Parent of the call's span. Undefined if the exchange is not traced. */
  readonly trace?: TraceSpan | undefined;
  /** Receives a report of each call that the tool itself makes, as `gateway_batch` does. */
  readonly calls?: CallReporter | undefined;
}

export interface Tools {
  /**
   * The tools in the order of their plugins in pipeline.yaml, then in the order within each plugin. The array is
   * replaced when the tools of a plugin change, so read this member again for each request.
   */
  readonly list: readonly CatalogueEntry[];
  /** The documents that can be read (MCP `resources/list`, `resources/read`), in the same order. */
  readonly resources: readonly Resource[];
  readonly resourceTemplates: readonly ResourceTemplate[];
  readonly prompts: readonly Prompt[];
  /**
   * Calls a tool: looks it up, checks the capability and the input, asks for confirmation, reserves credit, runs the
   * tool and settles the charge. Never throws or rejects. Returns a promise only if the tool returns one or is a write
   * tool. The `details` of the failure GATEWAY_CONFIRMATION_REQUIRED contain the token, its expiry and the summary.
   */
  call(tool: string, input: unknown, caller: ToolCaller): ToolOutcome | Promise<ToolOutcome>;
}
