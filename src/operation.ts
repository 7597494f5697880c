/**
 * What plugins say of the HTTP that they speak: the parts of which the OpenAPI document of a deployment is made
 * (surface `openapi`). Exported through `sluice-gateway/plugin`.
 */
import type { GatewayCode } from "./errors.ts";
import type { Capability } from "./services/accounts.ts";
import type { JsonSchema } from "./services/json.ts";

/** Where an operation stands: a method (never `*`) and the route's path as written in pipeline.yaml. */
export interface OperationPlace {
  readonly method: string;
  readonly path: string;
}

/** Media type to the schema of the body; an empty schema takes anything. */
export type DocumentedBodies = Readonly<Record<string, JsonSchema>>;

/** Header name to what it says. */
export type DocumentedHeaders = Readonly<
  Record<string, { readonly description: string; readonly schema: JsonSchema }>
>;

/** An answer that is no refusal. */
export interface DocumentedAnswer {
  readonly description: string;
  /** Absent: it has no body. */
  readonly content?: DocumentedBodies;
  readonly headers?: DocumentedHeaders;
}

/** A refusal in the canonical envelope (`refuse`). Status, message and `Retry-After` are the catalogue's. */
export interface DocumentedRefusal {
  readonly code: GatewayCode;
  /** Where it is not the code's own. */
  readonly status?: number;
  /** When it comes; absent: the code's message. */
  readonly description?: string;
  /** Schema of `details`; absent: there are none. */
  readonly details?: JsonSchema;
  readonly headers?: DocumentedHeaders;
}

/**
 * One plugin's part of an operation. Parts are put together down the list: a surface says what it takes and answers, a
 * step what it asks for, adds and refuses.
 */
export interface Operation {
  /** A few words, without a full stop; the surface's. */
  readonly summary?: string;
  readonly description?: string;
  /** A key is required: any (empty), or one with any of these capabilities. Absent: nothing is asked for. */
  readonly access?: readonly Capability[];
  /**
   * Schemas of objects, each property one parameter; `path` names the `{name}` segments. Required where the schema says
   * so.
   */
  readonly path?: JsonSchema;
  readonly query?: JsonSchema;
  readonly headers?: JsonSchema;
  readonly body?: { readonly content: DocumentedBodies; readonly required: boolean };
  /** By status. */
  readonly answers?: Readonly<Record<number, DocumentedAnswer>>;
  readonly refusals?: readonly DocumentedRefusal[];
  /** Fields that answers of any status may carry. */
  readonly answerHeaders?: DocumentedHeaders;
}
