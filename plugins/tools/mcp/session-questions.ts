/**
 * Questions that calls of a session wait for. The client is asked on the stream of the call and answers with a separate
 * request. Questions are kept by the process that asked them, until the call ends. If the answer or a cancellation
 * reaches another replica, that replica passes it on: the id of a question contains the replica that asked.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Replicas, Seal } from "sluice-gateway/plugin";
import { BoundedMap, isObject } from "sluice-gateway/internal/toolkit";

const purpose = "mcp question";
/** Maximum waiting time: the same as for a confirmation (decisions.md section 6). */
const waitMs = 5 * 60_000;
const answerTopic = "mcp answer";
const cancelTopic = "mcp cancel";
/** Answers are remembered, so that none of them is passed on twice. */
const maxPassedOn = 10_000;

/** `session`: its id. `request`: id of the request as JSON text. */
export interface AskingCall {
  readonly keyId: string;
  readonly session: string;
  readonly request: string;
}

export interface SessionQuestions {
  /**
   * Sends a question by `send` and waits for its answer. Undefined if the client declined, did not answer in time,
   * cancelled the call or disconnected (`signal`).
   */
  ask(call: AskingCall, signal: AbortSignal, send: (id: string) => void): Promise<unknown>;
  /** Ignored if no gateway has asked the key a question with this id. */
  answer(keyId: string, id: unknown, result: unknown): void;
  /** A later answer from the user is ignored. */
  cancel(call: AskingCall): void;
  stop(): void;
}

interface Waiting {
  readonly call: AskingCall;
  readonly resolve: (result: unknown) => void;
}
/** `i`: id of the question. `k`: id of the key that was asked. `r`: id of the replica that asked. */
interface Ticket {
  readonly i: string;
  readonly k: string;
  readonly r?: string;
}

/** Shared by the whole process: after a reload, the answer arrives at another instance of the surface. */
const open = new Map<string, Waiting>();

export function createSessionQuestions(parts: {
  readonly clock: Clock;
  readonly seal: Seal;
  readonly replicas: Replicas | undefined;
}): SessionQuestions {
  const { clock, seal, replicas } = parts;
  const passedOn = new BoundedMap<string, true>(maxPassedOn);
  const messages = new DisposableStack();
  if (replicas !== undefined) {
    messages.use(replicas.receive(answerTopic, (message) => receiveAnswer(message)));
    messages.use(
      // Only `cancel` sends messages of this topic.
      replicas.receive(cancelTopic, (call) => void cancelHere(call as AskingCall)),
    );
  }
  return {
    async ask(call, signal, send) {
      if (signal.aborted) return undefined;
      const ticket: Ticket = {
        i: randomUUID(),
        k: call.keyId,
        ...(replicas !== undefined && { r: replicas.id }),
      };
      const id = seal.seal(purpose, ticket, clock.now() + waitMs);
      const { promise, resolve } = Promise.withResolvers<unknown>();
      const giveUp = (): void => resolve(undefined);
      open.set(id, { call, resolve });
      signal.addEventListener("abort", giveUp, { once: true });
      using _late = clock.after(waitMs, giveUp);
      try {
        send(id);
        return await promise;
      } finally {
        signal.removeEventListener("abort", giveUp);
        open.delete(id);
      }
    },
    answer(keyId, id, result) {
      if (typeof id !== "string" || answerHere(keyId, id, result) || replicas === undefined) return;
      const opened = seal.open(purpose, id);
      if (opened === undefined || opened.expiresAt <= clock.now()) return;
      // Only `ask` seals values for this purpose.
      const { i, k, r } = opened.value as Ticket;
      if (k !== keyId || r === undefined || r === replicas.id || passedOn.peek(i)) return;
      passedOn.set(i, true);
      replicas.send(answerTopic, { keyId, id, result }, r);
    },
    cancel(call) {
      if (!cancelHere(call)) replicas?.send(cancelTopic, call);
    },
    stop: () => messages.dispose(),
  };
}

function receiveAnswer(message: unknown): void {
  if (!isObject(message)) return;
  const { keyId, id, result } = message;
  if (typeof keyId === "string" && typeof id === "string") answerHere(keyId, id, result);
}

/** Returns whether this process waits for the answer. An answer from another key is ignored. */
function answerHere(keyId: string, id: string, result: unknown): boolean {
  const waiting = open.get(id);
  if (waiting?.call.keyId === keyId) waiting.resolve(result);
  return waiting !== undefined;
}

function cancelHere({ keyId, session, request }: AskingCall): boolean {
  const asked = [...open.values()].filter(
    ({ call }) => call.request === request && call.session === session && call.keyId === keyId,
  );
  for (const { resolve } of asked) resolve(undefined);
  return asked.length > 0;
}
