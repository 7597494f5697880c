/** The worker's `GET /status`: the status document of a network that consists of this worker (decisions.md, 8). */
import type { TeeType } from "../verify/evidence.ts";

export interface WorkerFacts {
  /** Id of this process. The id of each entry adds the model to it. */
  readonly id: string;
  readonly coefficient: number;
  /** URL of the stream. Undefined if readers of the document must get it from another source. */
  readonly url: string | undefined;
  readonly evidence: TeeType;
  /** Lower-case hex. */
  readonly imageHash: string;
}

export interface WorkerState {
  /** Models that can be used now. */
  readonly models: readonly string[];
  /** Models that are answering a request. */
  readonly answering: ReadonlySet<string>;
  readonly isDraining: boolean;
}

/** Returns the status document, with one entry per model. */
export function statusDocument(facts: WorkerFacts, state: WorkerState): object {
  const { id, coefficient, url, evidence, imageHash } = facts;
  const { models, answering, isDraining } = state;
  return {
    workers: models.map((model) => ({
      id: `${id}/${model}`,
      model,
      coefficient,
      state: isDraining ? "draining" : answering.has(model) ? "busy" : "active",
      ...(url !== undefined && { url }),
    })),
    evidence,
    image_hash: imageHash,
  };
}
