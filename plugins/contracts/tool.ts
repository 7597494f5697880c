import type { JsonSchema } from "sluice-gateway/plugin";
import type { Capability, KeyPrincipal } from "./principal.ts";
import type {
  Content,
  Dialogue,
  ModelUsage,
  ReadProof,
  ResourceLink,
  ToolFailure,
  ToolOutcome,
} from "./tool-result.ts";

/** Hints of the Model Context Protocol. `write` tools must not set `readOnlyHint`. */
export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** Milli-CU. If the price depends on the input, `of` computes it and catalogues show `estimateMilliCu`. */
export type ToolPrice<Input = never> =
  | number
  | { readonly estimateMilliCu: number; readonly of: (input: Input) => number };

/**
 * `Input` is the type that the schema describes. The input has been validated when `call` runs, except for tools with
 * `hasOwnValidation`.
 */
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
  /**
   * JSON Schema of successful results, with the same rules for its root. Agents also get such a result as
   * `structuredContent`. A result that does not match is a bug and is answered with GATEWAY_INTERNAL_ERROR.
   */
  readonly outputSchema?: JsonSchema;
  /**
   * True if the tool validates its inputs and results itself, for example because another server does. The gateway then
   * shows the schemas unchanged and never compiles or applies them, so they need not be trusted. It only requires that
   * the roots of the schemas have `type: "object"`, that inputs and structured results are objects, and that
   * description, schemas and annotations together have at most 65,536 characters and 127 levels as JSON. Not for write
   * tools.
   */
  readonly hasOwnValidation?: boolean;
  readonly price: ToolPrice<Input>;
  readonly capability: Capability | undefined;
  /**
   * True if the tool changes something. It then asks for confirmation first and never runs in a batch. The catalogue
   * adds `confirmation_token` to the published schema and removes it from the input.
   */
  readonly write?: boolean;
  readonly annotations?: ToolAnnotations;
  /** Checks the input before its validation against the schema (for example, that a batch is not too large). */
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
  /** The proofs of the reads from which the result was made. Agents get them as `_meta.proof`. */
  readonly proof?: readonly ReadProof[];
  /** Resources that the result mentions, best first. Agents get them as `resource_link` items. */
  readonly links?: readonly ResourceLink[];
  /** Content that agents get instead of the JSON text. */
  readonly content?: readonly Content[];
}

/** The levels of RFC 5424, lowest first, with the names of the Model Context Protocol. */
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
   * Aborted at the time limit of the call, and when `call` has ended. It is not aborted when the caller disconnects,
   * because a call that has started runs to its end, and a success is charged.
   */
  readonly signal: AbortSignal;
  /** Undefined if the client cannot answer questions. */
  readonly dialogue: Dialogue | undefined;
  /** Reports the progress of the call, if the caller requested progress. `total`: undefined if unknown. */
  readonly progress: (done: number, total?: number, message?: string) => void;
  /** Sends a log message, if the caller requested log messages. `data`: a JSON value, which is sent unchanged. */
  readonly log: (level: LogLevel, data: unknown) => void;
  /** Undefined if no tool has this name. */
  readonly entry: (tool: string) => CatalogueEntry | undefined;
  /**
   * Calls another tool of the catalogue for the same caller. Its cost is charged separately, even if this call fails,
   * and is part of the `usedCUMilli` of this call. `signal`: ends the other call before this call ends. If the caller
   * has disconnected, the result is a failure and the tool does not run.
   */
  readonly run: (
    tool: string,
    input: unknown,
    options?: { readonly signal?: AbortSignal },
  ) => Promise<ToolOutcome>;
}

export interface CatalogueEntry {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly estimatedCUMilli: number;
  readonly estimatedCUVaries: boolean;
  readonly annotations: ToolAnnotations;
  readonly write: boolean;
  readonly capability: Capability | undefined;
}
