/** The service `host.routes`, what each route says of itself: implemented in src/pipeline/document.ts. */
import type { Operation } from "../operation.ts";

/** A route of pipeline.yaml, or of the gateway itself (health). */
export interface DocumentedRoute {
  /** As written: literal segments, `{name}` segments and, as the last one, `*`. */
  readonly path: string;
  readonly websocket: boolean;
  readonly surface: { readonly name: string; readonly description: string };
  readonly operations: readonly DocumentedOperation[];
}

export interface DocumentedOperation {
  readonly method: string;
  /** From the top of the list to the surface. */
  readonly parts: readonly Operation[];
}
