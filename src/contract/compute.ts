/** `host.compute`: threads for work that would block the event loop. Implemented in src/compute. */

export interface ComputeJob {
  /**
   * URL of the module whose default export does the work: a function from `input` to bytes or undefined. Get it with
   * `import.meta.resolve`, so that a reload of the plugin's code also reloads the module.
   */
  readonly module: string;
  /** A value that can be cloned. The buffers in `transfer` are moved, so the caller cannot use them afterwards. */
  readonly input: object;
  readonly transfer: readonly ArrayBuffer[];
  readonly signal?: AbortSignal | undefined;
}

/**
 * The result of a job. `bytes` is undefined if the function returned undefined. `crashed`: the function threw or
 * returned something else, or its thread ran out of memory. The log has the reason.
 */
export type ComputeOutcome =
  | { readonly ok: true; readonly bytes: Uint8Array | undefined }
  | { readonly ok: false; readonly reason: "busy" | "timeout" | "crashed" | "aborted" };

export interface ComputeThreads {
  /** Never rejects. Jobs that do not fit the queue fail as `busy`. */
  run(job: ComputeJob): Promise<ComputeOutcome>;
}

/** Threads that requests wait for. */
export interface Compute extends ComputeThreads {
  /**
   * A thread for long work, such as reports, which must not delay other jobs. Its queue is short, and a job may wait for
   * 30 s, so no answer of another request may depend on it.
   */
  readonly background: ComputeThreads;
}
