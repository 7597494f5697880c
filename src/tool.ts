/**
 * The contract of tools: what a `tools` plugin adds to the catalogue, and the catalogue that every tool surface shares
 * (`/mcp`, `/rpc`, discovery, `gateway_batch`). Exported through `sluice-gateway/plugin`.
 */
import type { CallReport, CallReporter } from "./called.ts";
import type { GatewayCode } from "./errors.ts";
import type { Content, Dialogue, Prompt, Questions, ResourceTemplate } from "./prompt.ts";
import type { Capability, KeyPrincipal } from "./services/accounts.ts";
import type { JsonSchema } from "./services/json.ts";
import type { Charge } from "./services/meter.ts";
import type { TraceSpan } from "./services/trace.ts";

/** Hints for agents, as the Model Context Protocol defines them. `write` tools may not claim `readOnlyHint`. */
export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** What a tool costs, milli-CU. A function of the input when it varies; `estimateMilli` is what catalogues show. */
export type ToolPrice<Input = never> =
  | number
  | { readonly estimateMilli: number; readonly of: (input: Input) => number };

/** One tool. `Input` is what the schema describes: it has been validated when `call` runs. */
export interface Tool<Input = unknown> {
  /** Letters, digits and underscores; unique on a deployment. */
  readonly name: string;
  readonly description: string;
  /**
   * JSON Schema 2020-12; the root is `type: "object"`, without `oneOf`, `anyOf` or `allOf` beside it. `x-mcp-header:
   * "Region"` on a text, integer or boolean has agents of revision 2026-07-28 repeat the argument in
   * `Mcp-Param-Region`, for proxies to route by.
   */
  readonly inputSchema: JsonSchema;
  readonly price: ToolPrice<Input>;
  readonly capability: Capability | undefined;
  /**
   * Changes something: asks for confirmation first and never runs in a batch. The catalogue adds `confirmation_token`
   * to the schema that it publishes, and takes it out of the input again.
   */
  readonly write?: boolean;
  readonly annotations?: ToolAnnotations;
  /** Checks that come before the schema's (a batch that is too large). */
  readonly before?: (input: unknown) => ToolFailure | undefined;
  /** What a person who confirms a write tool is shown: plain JSON values. */
  readonly summarise?: (
    input: Input,
    context: ToolContext,
  ) => Promise<{ readonly ok: true; readonly summary: object } | ToolFailure>;
  /** A throw is a bug: GATEWAY_INTERNAL_ERROR. After 30 s the call is aborted: GATEWAY_TOOL_EXECUTION_ERROR. */
  call(input: Input, context: ToolContext): ToolResult | Promise<ToolResult>;
}

export type ToolResult =
  /** A JSON value, serialised once by the catalogue. */
  | (Succeeded & { readonly value: unknown })
  /** Already JSON text: nothing parses or copies it on its way. */
  | (Succeeded & { readonly json: string })
  | ToolFailure;

interface Succeeded {
  readonly ok: true;
  readonly usage?: ModelUsage;
  /** Resources that the result speaks of, best first: `resource_link` items for agents that read them. */
  readonly links?: readonly ResourceLink[];
  /** What agents are shown in place of the JSON text. */
  readonly content?: readonly Content[];
}

/** What a link or a list shows of a resource, by the names of the Model Context Protocol. */
export interface ResourceLink {
  /** Absolute URI. One with a fragment names a part; the resource is read without it. */
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly mimeType?: string;
}

/**
 * A document that a `tools` plugin offers for reading beside its tools: a resource of the Model Context Protocol.
 * Reading is free, for keys with its capability.
 */
export interface Resource extends ResourceLink {
  /** Absolute URI without a fragment, unique on a deployment. */
  readonly uri: string;
  readonly mimeType: string;
  readonly description?: string;
  /** Size of what `read` gives, bytes. */
  readonly bytes?: number;
  readonly capability: Capability | undefined;
  /** The content: text, or bytes for a blob. A throw or a rejection is a bug. */
  read(): string | Uint8Array | Promise<string | Uint8Array>;
}

/** For inference tools: the `genAI…` members of the usage metadata. */
export interface ModelUsage {
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** An expected failure; costs nothing. `message` is shown to the caller: never an upstream's text. */
export interface ToolFailure {
  readonly ok: false;
  readonly code: GatewayCode;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /** The call can go on once these are answered. Not for write tools: their one question is the confirmation. */
  readonly asks?: Questions;
}

export function toolFailure(
  code: GatewayCode,
  message: string,
  details?: Readonly<Record<string, unknown>>,
): ToolFailure {
  return { ok: false, code, message, ...(details !== undefined && { details }) };
}

/** How severe it is what a tool tells, mildest first: RFC 5424 by the names of the Model Context Protocol. */
export type LogLevel =
  | "debug"
  | "info"
  | "notice"
  | "warning"
  | "error"
  | "critical"
  | "alert"
  | "emergency";

/** What a tool gets beside its input. Its methods may be destructured. */
export interface ToolContext {
  readonly principal: KeyPrincipal;
  readonly requestId: string;
  /**
   * Aborts when the call is over: at its time-out, or when `call` has ended. It does not abort when the caller leaves:
   * a call that has begun is carried through, and a success is charged.
   */
  readonly signal: AbortSignal;
  /** Undefined where the client cannot be asked anything. */
  readonly dialogue: Dialogue | undefined;
  /** Reports to a caller that asked for it how far the call is. `total`: undefined if unknown. */
  readonly progress: (done: number, total?: number, message?: string) => void;
  /** Reports to a caller that asked for it what happens meanwhile. `data`: a JSON value, shown as it is. */
  readonly log: (level: LogLevel, data: unknown) => void;
  /** Returns the catalogue's entry of a tool; undefined when there is none of that name. */
  readonly entry: (tool: string) => CatalogueEntry | undefined;
  /**
   * Calls another tool of the catalogue as this caller, with its own usage accounting: what it costs is charged
   * whatever becomes of this call, and is part of its `usedCUMilli`. `signal` ends it earlier than this call's own.
   * Fails without running the tool when the caller has left by now.
   */
  readonly run: (
    tool: string,
    input: unknown,
    options?: { readonly signal?: AbortSignal },
  ) => Promise<ToolOutcome>;
}

/** Who calls a tool, for the catalogue. */
export interface ToolCaller {
  readonly principal: KeyPrincipal;
  readonly requestId: string;
  /** The exchange's own account: each call opens its part of it. */
  readonly charge: Charge;
  /** Aborts when the caller has gone: what has not begun is then not begun. What has begun is carried through. */
  readonly signal: AbortSignal;
  readonly progress?: (done: number, total?: number, message?: string) => void;
  readonly log?: (level: LogLevel, data: unknown) => void;
  /**
   * The confirmation token of the second call of a write tool, where the transport carries one beside the input; the
   * input's own `confirmation_token` does as well.
   */
  readonly confirmationToken?: string | undefined;
  readonly dialogue?: Dialogue | undefined;
  /** Where the call's own span goes, while its exchange is traced. */
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
      /** What was charged: its own price and that of the calls it made. */
      readonly usedCUMilli: number;
      readonly latencyMs: number;
      readonly usage: ModelUsage | undefined;
      readonly links?: readonly ResourceLink[] | undefined;
      readonly content?: readonly Content[] | undefined;
    }
  | (ToolFailure & { readonly tool: string; readonly latencyMs: number });

/** The report of a call that has ended. */
export function toolReport(outcome: ToolOutcome): CallReport {
  const code = outcome.ok ? undefined : outcome.code;
  return { kind: "tool", name: outcome.tool, isListed: code !== "GATEWAY_TOOL_NOT_FOUND", code };
}

/** A catalogue entry as discovery and lists show it. */
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

/** The service `host.tools`: one catalogue for every transport. */
export interface Tools {
  /** In a stable order: that of pipeline.yaml, then of each plugin. Complete when surfaces start. */
  readonly list: readonly CatalogueEntry[];
  /** What can be read beside the tools (MCP `resources/list`, `resources/read`), in the same order. */
  readonly resources: readonly Resource[];
  readonly resourceTemplates: readonly ResourceTemplate[];
  readonly prompts: readonly Prompt[];
  /**
   * Calls a tool: looks it up, checks capability and input, asks for confirmation, reserves, runs, settles.
   * Never throws or rejects; a promise only where the tool gives one, or writes. GATEWAY_CONFIRMATION_REQUIRED is a
   * failure whose `details` hold token, expiry and summary.
   */
  call(tool: string, input: unknown, caller: ToolCaller): ToolOutcome | Promise<ToolOutcome>;
}
