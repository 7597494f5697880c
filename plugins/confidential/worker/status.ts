/**
 * What a worker says of itself at `GET /status`: the status document of a network that consists of it (decisions.md,
 * 8).
 */
import type { TeeType } from "../verify/evidence.ts";

export interface WorkerFacts {
  /** Of this process; models are told apart behind it. */
  readonly id: string;
  readonly coefficient: number;
  /** Of the stream; undefined: whoever reads the document knows it. */
  readonly url: string | undefined;
  readonly evidence: TeeType;
  /** Lower-case hex. */
  readonly imageHash: string;
}

export interface WorkerState {
  /** Models that can be asked now. */
  readonly models: readonly string[];
  /** Those that are answering. */
  readonly answering: ReadonlySet<string>;
  readonly isDraining: boolean;
}

/** One entry a model, since an entry names one. */
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
