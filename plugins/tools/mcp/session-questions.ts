/**
 * Questions that calls of a session wait for: the client is asked on the call's own stream, and answers with a request
 * of its own. They are kept by the process that asked, no longer than the call itself. Another replica that gets the
 * answer cannot pass it on, but leaves word that it went astray: the call ends without it then, and not after five
 * minutes.
 */
import { randomUUID } from "node:crypto";
import type { Claims, Clock, Seal } from "sluice-gateway/plugin";

const purpose = "mcp question";
/** As long as a confirmation: decisions.md section 6. */
const waitMs = 5 * 60_000;
const strayMs = 1_000;

/** The call that asks: a session's id and the request's, as JSON text. */
export interface AskingCall {
  readonly keyId: string;
  readonly session: string;
  readonly request: string;
}

export interface SessionQuestions {
  /**
   * Asks by `send`, and waits. Undefined: the client said that it will not answer, did not in time, its answer went
   * astray, it has cancelled the call, or it has gone (`signal`).
   */
  ask(call: AskingCall, signal: AbortSignal, send: (id: string) => void): Promise<unknown>;
  /** What a client answers; passed over when no question of ours to that key has this id. */
  answer(keyId: string, id: unknown, result: unknown): void;
  /** The client waits for this call no longer: whatever its user says now comes too late. */
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

/** Of the whole process: after a reload the answer comes to another surface than the one that asked. */
const open = new Map<string, Waiting>();

const strayClaim = ({ i }: Ticket): string => `${purpose} ${i}`;

export function createSessionQuestions(parts: {
  readonly clock: Clock;
  readonly seal: Seal;
  readonly claims: Claims;
}): SessionQuestions {
  const { clock, seal, claims } = parts;
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
        if (attempt(() => claims.has(strayClaim(ticket)))) giveUp();
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
      // What is sealed for this purpose was made above.
      const ticket = opened.value as Ticket;
      if (ticket.k === keyId) attempt(() => claims.claim(strayClaim(ticket), opened.expiresAt));
    },
    cancel({ keyId, session, request }) {
      for (const { call, resolve } of open.values()) {
        const isIt = call.request === request && call.session === session && call.keyId === keyId;
        if (isIt) resolve(undefined);
      }
    },
  };
}

/** A store that does not work now costs the asker time, and nobody anything else. */
function attempt(act: () => boolean): boolean {
  try {
    return act();
  } catch {
    return false;
  }
}
