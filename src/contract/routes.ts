/** The service `routes`: the documentation of every route. Implemented in src/pipeline/load/document.ts. */
import type { Operation } from "./operation.ts";

/** A route of pipeline.yaml. */
export interface DocumentedRoute {
  /** The path as written: literal segments, `{name}` segments and, as the last segment, `*`. */
  readonly path: string;
  readonly websocket: boolean;
  readonly surface: { readonly name: string; readonly description: string };
  readonly operations: readonly DocumentedOperation[];
}

export interface DocumentedOperation {
  readonly method: string;
  /** One part per plugin, from the top of the list to the surface. */
  readonly parts: readonly Operation[];
}
