export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface Begun {
  /** Chosen by the thread. */
  readonly id: string;
  readonly lane: string;
}

/** The end of a transaction. `isFailed`: its changes are dropped. */
export interface Ended {
  readonly id: string;
  readonly isFailed: boolean;
}

export const queryCall = "store: query";
export const beginCall = "store: begin";
export const runCall = "store: run";
export const endCall = "store: end";
