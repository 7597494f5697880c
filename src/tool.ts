/**
 * The contract of tools: the tools and resources that a `tools` plugin adds, and the catalogue that all tool surfaces
 * share (`/mcp`, `/rpc`, discovery, `gateway_batch`). Exported through `sluice-gateway/plugin`.
 */
import type { CallReport, CallReporter } from "./contract/called.ts";
import type { JsonSchema } from "./contract/json.ts";
import type { TraceSpan } from "./contract/trace.ts";
import type { ToolsHooks } from "./plugin.ts";
import type { GatewayCode } from "./errors.ts";
import type { Content, Dialogue, Prompt, Questions, ResourceTemplate } from "./prompt.ts";
import type { Capability, KeyPrincipal } from "./services/accounts.ts";
import type { Charge } from "./services/meter.ts";

/** Hints for agents, as the Model Context Protocol defines them. `write` tools must not set `readOnlyHint`. */
export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/**
 * The price of a call in milli-CU. If the price depends on the input, `of` computes it and catalogues show
 * `estimateMilli`.
 */
export type ToolPrice<Input = never> =
  | number
  | { readonly estimateMilli: number; readonly of: (input: Input) => number };

/** One tool. `Input` is the type that the schema describes. The input has been validated when `call` runs. */
export interface Tool<Input = unknown> {
  /** At most 64 letters, digits and underscores, beginning with a letter. Unique within a deployment. */
  readonly name: string;
  readonly description: string;
  /**
   * JSON Schema 2020-12. The root has `type: "object"` and no `oneOf`, `anyOf` or `allOf`. If a string, integer or
   * boolean property has `x-mcp-header: "Region"`, agents of revision 2026-07-28 repeat the argument in the header
   * `Mcp-Param-Region`, so that proxies can route by it.
   */
  readonly inputSchema: JsonSchema;
  readonly price: ToolPrice<Input>;
  readonly capability: Capability | undefined;
  /**
   * True if the tool changes something. It then asks for confirmation first and never runs in a batch. The catalogue
   * adds `confirmation_token` to the published schema and removes it from the input.
   */
  readonly write?: boolean;
  readonly annotations?: ToolAnnotations;
  /** Checks the input before the schema does (for example, that a batch is not too large). */
  readonly before?: (input: unknown) => ToolFailure | undefined;
  /** Returns the summary that is shown to the person who confirms a call of a write tool: plain JSON values. */
  readonly summarise?: (
    input: Input,
    context: ToolContext,
  ) => Promise<{ readonly ok: true; readonly summary: object } | ToolFailure>;
  /**
   * Runs the tool. Throwing is a bug and is answered with GATEWAY_INTERNAL_ERROR. After 30 s the call is aborted and
   * answered with GATEWAY_TOOL_EXECUTION_ERROR.
   */
  call(input: Input, context: ToolContext): ToolResult | Promise<ToolResult>;
}

export type ToolResult =
  /** A JSON value, which the catalogue serializes once. */
  | (Succeeded & { readonly value: unknown })
  /** JSON text, which is neither parsed nor copied. */
  | (Succeeded & { readonly json: string })
  | ToolFailure;

interface Succeeded {
  readonly ok: true;
  readonly usage?: ModelUsage;
  /** Resources that the result mentions, best first. Agents get them as `resource_link` items. */
  readonly links?: readonly ResourceLink[];
  /** Content that agents get instead of the JSON text. */
  readonly content?: readonly Content[];
}

/** The description of a resource in a link or a list, with the names of the Model Context Protocol. */
export interface ResourceLink {
  /** Absolute URI. A fragment names a part of the resource; the resource is read without it. */
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly mimeType?: string;
}

/**
 * A document that a `tools` plugin offers in addition to its tools: a resource of the Model Context Protocol. Reading
 * it is free for every key that has its capability.
 */
export interface Resource extends ResourceLink {
  /** Absolute URI without a fragment. Unique within a deployment. */
  readonly uri: string;
  readonly mimeType: string;
  readonly description?: string;
  /** Size of the content in bytes. */
  readonly bytes?: number;
  readonly capability: Capability | undefined;
  /** Returns the content: text, or bytes for a blob. Throwing or rejecting is a bug. */
  read(): string | Uint8Array | Promise<string | Uint8Array>;
}

/** Token usage of an inference tool: the `genAI…` members of the usage metadata. */
export interface ModelUsage {
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/**
 * An expected failure, which costs nothing. `message` is sent to the caller, so it never contains an upstream's text.
 */
export interface ToolFailure {
  readonly ok: false;
  readonly code: GatewayCode;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /**
   * Questions after whose answers the call can continue. Not for write tools, whose only question is the confirmation.
   */
  readonly asks?: Questions;
}

export function toolFailure(
  code: GatewayCode,
  message: string,
  details?: Readonly<Record<string, unknown>>,
): ToolFailure {
  return { ok: false, code, message, ...(details !== undefined && { details }) };
}

/** Severity of a log message, lowest first: the levels of RFC 5424 with the names of the Model Context Protocol. */
export type LogLevel =
  | "debug"
  | "info"
  | "notice"
  | "warning"
  | "error"
  | "critical"
  | "alert"
  | "emergency";

/** The context of a call, passed to the tool with its input. Its methods may be destructured. */
export interface ToolContext {
  readonly principal: KeyPrincipal;
  readonly requestId: string;
  /**
   * Aborts at the time limit of the call, and when `call` has ended. It does not abort when the caller leaves, because
   * a call that has begun runs to its end, and a success is charged.
   */
  readonly signal: AbortSignal;
  /** Undefined if the client cannot answer questions. */
  readonly dialogue: Dialogue | undefined;
  /** Sends the progress of the call, if the caller asked for it. `total`: undefined if unknown. */
  readonly progress: (done: number, total?: number, message?: string) => void;
  /** Sends a log message, if the caller asked for them. `data`: a JSON value, which is sent unchanged. */
  readonly log: (level: LogLevel, data: unknown) => void;
  /** Returns the catalogue entry of a tool. Undefined if there is no tool with this name. */
  readonly entry: (tool: string) => CatalogueEntry | undefined;
  /**
   * Calls another tool of the catalogue for the same caller. Its cost is charged separately, even if this call fails,
   * and is part of the `usedCUMilli` of this call. `signal`: ends the other call before this call ends. If the caller
   * has left, the result is a failure and the tool does not run.
   */
  readonly run: (
    tool: string,
    input: unknown,
    options?: { readonly signal?: AbortSignal },
  ) => Promise<ToolOutcome>;
}

/** The caller of a tool, passed to the catalogue. */
export interface ToolCaller {
  readonly principal: KeyPrincipal;
  readonly requestId: string;
  /** The account of the exchange. Each call opens a part of it. */
  readonly charge: Charge;
  /**
   * Aborts when the caller has left. Calls that have not begun are then skipped; calls that have begun run to the end.
   */
  readonly signal: AbortSignal;
  readonly progress?: (done: number, total?: number, message?: string) => void;
  readonly log?: (level: LogLevel, data: unknown) => void;
  /**
   * The confirmation token of the second call of a write tool, if the transport sends it outside the input. The member
   * `confirmation_token` of the input works, too.
   */
  readonly confirmationToken?: string | undefined;
  readonly dialogue?: Dialogue | undefined;
  /** Parent of the call's span. Undefined if the exchange is not traced. */
  readonly trace?: TraceSpan | undefined;
  /** Receives a report of each call that the tool itself makes, as `gateway_batch` does. */
  readonly calls?: CallReporter | undefined;
}

/** How one call ended. */
export type ToolOutcome =
  | {
      readonly ok: true;
      readonly tool: string;
      /** The result as JSON text. */
      readonly json: string;
      /** The amount that was charged: the price of the call and of the calls that it made. */
      readonly usedCUMilli: number;
      readonly latencyMs: number;
      readonly usage: ModelUsage | undefined;
      readonly links?: readonly ResourceLink[] | undefined;
      readonly content?: readonly Content[] | undefined;
    }
  | (ToolFailure & { readonly tool: string; readonly latencyMs: number });

/** Returns the report of a call that has ended. */
export function toolReport(outcome: ToolOutcome): CallReport {
  const code = outcome.ok ? undefined : outcome.code;
  return { kind: "tool", name: outcome.tool, isListed: code !== "GATEWAY_TOOL_NOT_FOUND", code };
}

/** The entry of a tool in the catalogue, as discovery and lists show it. */
export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly estimatedCUMilli: number;
  readonly estimatedCUVaries: boolean;
  readonly annotations: ToolAnnotations;
  readonly write: boolean;
  readonly capability: Capability | undefined;
}

declare module "./plugin.ts" {
  interface ServiceTypes {
    /** The plugins of kind `tools`, in the order of pipeline.yaml. */
    tools: readonly StartedTools[];
    "tool-catalogue": Tools;
  }
}

/** One entry of the service `tools`: a started plugin of kind `tools`. */
export interface StartedTools {
  /** Name of the plugin. */
  readonly plugin: string;
  readonly hooks: ToolsHooks;
  /**
   * Reports that the plugin has an invalid tool, resource or prompt. The fault is shown at the plugin's entry under
   * `tools:`, and pipeline.yaml is not loaded. Has an effect only while the caller starts.
   */
  readonly reportInvalid: (problem: string) => void;
}

/** The service `tool-catalogue`, which all transports share. Implemented in plugins/tools/tool-catalogue. */
export interface Tools {
  /**
   * The tools in the order of their plugins in pipeline.yaml, then in the order within each plugin. Complete when
   * surfaces start.
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
