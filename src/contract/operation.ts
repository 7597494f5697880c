/**
 * How plugins document their HTTP interface: the parts from which the OpenAPI document of a deployment is built
 * (surface `openapi`).
 */
import type { GatewayCode } from "../base/errors.ts";
import type { JsonSchema } from "./json.ts";

/** The place of an operation: a method (never `*`) and the route's path as written in pipeline.yaml. */
export interface OperationPlace {
  readonly method: string;
  readonly path: string;
}

/** Maps a media type to the schema of the body. An empty schema accepts any body. */
export type DocumentedBodies = Readonly<Record<string, JsonSchema>>;

/** Maps the name of a header to its documentation. */
export type DocumentedHeaders = Readonly<
  Record<string, { readonly description: string; readonly schema: JsonSchema }>
>;

/** An answer that is not a refusal. */
export interface DocumentedAnswer {
  readonly description: string;
  /** Missing if the answer has no body. */
  readonly content?: DocumentedBodies;
  readonly headers?: DocumentedHeaders;
}

/**
 * A refusal in the canonical envelope (`refuse`). The catalogue of errors has its status, message and `Retry-After`.
 */
export interface DocumentedRefusal {
  readonly code: GatewayCode;
  /** The status, if it differs from the status of the code. */
  readonly status?: number;
  /** The condition under which the refusal is sent. The default is the message of the code. */
  readonly description?: string;
  /** Schema of `details`. Missing if the refusal has no `details`. */
  readonly details?: JsonSchema;
  readonly headers?: DocumentedHeaders;
}

/**
 * One plugin's part of an operation. The parts of a route are merged down its list. A surface documents what it accepts
 * and answers. A step documents what it requires, adds and refuses.
 */
export interface Operation {
  /** A few words without a full stop, given by the surface. */
  readonly summary?: string;
  readonly description?: string;
  /**
   * The capabilities of which a key must have at least one. If the array is empty, any key is accepted. Missing if no
   * key is required.
   */
  readonly access?: readonly string[];
  /**
   * Object schemas in which each property is one parameter. The properties of `path` are the `{name}` segments. A
   * parameter is required if the schema lists it under `required`.
   */
  readonly path?: JsonSchema;
  readonly query?: JsonSchema;
  readonly headers?: JsonSchema;
  readonly body?: { readonly content: DocumentedBodies; readonly required: boolean };
  /** Answers by status. */
  readonly answers?: Readonly<Record<number, DocumentedAnswer>>;
  readonly refusals?: readonly DocumentedRefusal[];
  /** Schema of all refusals of the route, if the surface renders them (`renderRefusal`). */
  readonly refusalBody?: JsonSchema;
  /** Header fields that answers of any status may have. */
  readonly answerHeaders?: DocumentedHeaders;
}
