/** The messages between the main thread and the threads that serve, except those of plugins. */
import type { MessagePort } from "node:worker_threads";
import type { Fault } from "../../config/fault.ts";
import type { Environment } from "../../config/environment.ts";

export interface ThreadStart {
  readonly index: number;
  readonly count: number;
  readonly messages: MessagePort;
  readonly memory: MessagePort;
  readonly file: PipelineFile;
  readonly env: Environment;
  readonly strict: boolean;
  readonly host: string;
  readonly port: number;
  /** Whether the lines of the log go to the log of the main thread. */
  readonly sendsLog: boolean;
}

export interface PipelineFile {
  readonly path: string;
  readonly text: string;
  /** The services that run in the main thread only. */
  readonly without: readonly string[];
  /** Number of the generation, the same in all threads. */
  readonly generation: number;
}

/** Sent by a thread when it serves, or when it cannot. */
export interface Started {
  readonly faults: readonly Fault[];
}

export interface SentLine {
  readonly level: "debug" | "info" | "warn" | "error" | "line";
  readonly fields: object;
  readonly text: string;
}

/** Names of calls to a thread. */
export const prepareCall = "gateway: prepare a generation";
export const closeCall = "gateway: close the listener";
export const metricsCall = "gateway: metrics";
/** Returns the backends that cannot be used, or have a server that cannot. */
export const failingCall = "gateway: failing backends";
/** Name of a call to the main thread: returns true if the thread may listen, false if it must end. */
export const listenCall = "gateway: may the thread listen";
/** Names of messages to a thread. The first has the number of the generation that the thread now serves. */
export const commitTopic = "gateway: serve the generation";
export const dropTopic = "gateway: drop the generation";
export const drainTopic = "gateway: the drain begins";
/** Names of messages to the main thread. */
export const startedTopic = "gateway: started";
export const failingTopic = "gateway: the thread drains after a fatal error";
/** Number of a generation that has stopped in a thread. */
export const retiredTopic = "gateway: the generation has stopped";
export const lastMetricsTopic = "gateway: last metrics";
export const lineTopic = "gateway: line of the log";
export const settledTopic = "gateway: settled exchanges";
export const secretCall = "gateway: secret";

/** Memory with two numbers per thread: how often it has beaten, and how many exchanges it runs. */
export const beatMemory = "gateway: beats";
export const beatBytes = (slots: number): number => slots * 8;
/** Interval at which a thread shows that its event loop runs. */
export const beatMs = 1_000;
export const heldBytesCount = "gateway: held bytes";
export const heldByCallers = "gateway: held bytes of callers";
