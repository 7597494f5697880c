/**
 * Questions that calls of a session wait for. The client is asked on the stream of the call and answers with a separate
 * request. Questions are kept by the process that asked them, and no longer than the call. If another replica gets the
 * answer, it cannot pass it on, but it records in the store that the answer has arrived elsewhere. The call then soon
 * continues without an answer, instead of waiting for five minutes.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Claims, Seal } from "sluice-gateway/plugin";
import { orElse } from "sluice-gateway/toolkit";

const purpose = "mcp question";
/** Maximum waiting time: the same as for a confirmation (decisions.md section 6). */
const waitMs = 5 * 60_000;
const strayMs = 1_000;

/** The call that asks: id of the session, and id of the request as JSON text. */
export interface AskingCall {
  readonly keyId: string;
  readonly session: string;
  readonly request: string;
}

export interface SessionQuestions {
  /**
   * Sends a question by `send` and waits for its answer. Undefined if the client declined, did not answer in time,
   * cancelled the call or has left (`signal`), or if its answer went astray.
   */
  ask(call: AskingCall, signal: AbortSignal, send: (id: string) => void): Promise<unknown>;
  /** Passes on the answer of a client. Ignored if this gateway has not asked the key a question with this id. */
  answer(keyId: string, id: unknown, result: unknown): void;
  /** Ends the questions of a call that the client has cancelled. A later answer of its user is ignored. */
  cancel(call: AskingCall): void;
}

interface Waiting {
  readonly call: AskingCall;
  readonly resolve: (result: unknown) => void;
}
interface Ticket {
  readonly i: string;
  readonly k: string;
}

/**
 * Shared by the whole process: after a reload, the answer arrives at another instance of the surface than the one that
 * asked.
 */
const open = new Map<string, Waiting>();

const answeredElsewhereEnding = ({ i }: Ticket): string => `${purpose} ${i}`;

export function createSessionQuestions(parts: {
  readonly clock: Clock;
  readonly seal: Seal;
  readonly claims: Pick<Claims, "end" | "hasEnded">;
}): SessionQuestions {
  const { clock, seal, claims } = parts;
  /** Returns whether the answer has arrived at another replica. If that is unknown, the call waits longer. */
  const isAnsweredElsewhere = (ticket: Ticket): boolean => {
    try {
      return claims.hasEnded(answeredElsewhereEnding(ticket));
    } catch {
      return false;
    }
  };
  return {
    async ask(call, signal, send) {
      if (signal.aborted) return undefined;
      const ticket: Ticket = { i: randomUUID(), k: call.keyId };
      const id = seal.seal(purpose, ticket, clock.now() + waitMs);
      const { promise, resolve } = Promise.withResolvers<unknown>();
      const giveUp = (): void => resolve(undefined);
      open.set(id, { call, resolve });
      signal.addEventListener("abort", giveUp, { once: true });
      using _late = clock.after(waitMs, giveUp);
      using _stray = clock.every(strayMs, () => {
        if (isAnsweredElsewhere(ticket)) giveUp();
      });
      try {
        send(id);
        return await promise;
      } finally {
        signal.removeEventListener("abort", giveUp);
        open.delete(id);
      }
    },
    answer(keyId, id, result) {
      if (typeof id !== "string") return;
      const waiting = open.get(id);
      if (waiting?.call.keyId === keyId) waiting.resolve(result);
      if (waiting !== undefined) return;
      const opened = seal.open(purpose, id);
      if (opened === undefined || opened.expiresAt <= clock.now()) return;
      // Only `ask` seals values for this purpose.
      const ticket = opened.value as Ticket;
      if (ticket.k !== keyId) return;
      // If this fails, the call waits longer, which is harmless.
      void orElse(
        () => claims.end(answeredElsewhereEnding(ticket), opened.expiresAt),
        () => {},
      );
    },
    cancel({ keyId, session, request }) {
      for (const { call, resolve } of open.values()) {
        const isSameRequest =
          call.request === request && call.session === session && call.keyId === keyId;
        if (isSameRequest) resolve(undefined);
      }
    },
  };
}
