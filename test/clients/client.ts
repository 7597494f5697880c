/** The tests run every case of `clients.slow.test.ts` with each client that `clients.ts` lists. */

import type { Api } from "../agents/programs.ts";

export interface Target {
  /** `http://host:port`, with the network's path if there is one. */
  readonly url: string;
  readonly key: string;
  readonly model: string;
}

export interface Reply {
  readonly text: string;
  /** Input and output tokens. */
  readonly tokens: readonly [number | undefined, number | undefined];
}

export type How = "in one piece" | "streamed";

/** Calls through the client. Each sends every request once, says `Hi`, and allows 100 tokens. */
export interface Calls {
  ask(): Promise<Reply>;
  /** `onText`: called for each piece of text. Rejects if the client reports an error, in whichever way. */
  stream(onText: (text: string) => void, signal: AbortSignal): Promise<Reply>;
  /** Offers the tool `add` of this file, sends its result `3`, and returns the final text. `run` gets its arguments. */
  useTool(how: How, run: (input: unknown) => void): Promise<string>;
  /** Returns an object of `schema`, parsed by the client if it does so. */
  parse(): Promise<unknown>;
}

export interface Client {
  readonly name: string;
  readonly api: Api;
  /** Differences from the defaults of the package, if there are any. */
  readonly variant?: string;
  readonly at: (target: Target) => Calls;
  /** Returns the status and the headers of an error, and what the client adds to recognize it, such as its class. */
  readonly read: (error: unknown) => Failure;
  readonly refusals: Readonly<Record<Refusal, unknown>>;
  readonly rejectsAbort: boolean;
  readonly readsStreamedInput: boolean;
}

export interface Failure {
  readonly status: number | undefined;
  readonly header: (name: string) => string | undefined;
  readonly message: string;
  readonly kind?: unknown;
}

export type Refusal =
  | "wrong key"
  | "missing capability"
  | "credit used up"
  | "unknown model"
  | "request refused by the worker"
  | "failure of the worker";

export const schema = {
  type: "object",
  properties: { n: { type: "number" } },
  required: ["n"],
  additionalProperties: false,
} as const;

export const add = { name: "add", description: "Adds one.", parameters: schema } as const;

export const sum = "3";

export function headersOf(headers: unknown): Failure["header"] {
  if (headers instanceof Headers) return (name) => headers.get(name) ?? undefined;
  return (name) => (headers as Record<string, string | undefined> | undefined)?.[name];
}
