/**
 * `Mcp-Session-Id` of the revisions with `initialize`: a sealed token with the key, the agreed revision and the
 * capabilities of the client. Every replica can read it, even after a restart. Only ended sessions are stored.
 */
import { randomUUID } from "node:crypto";
import type { Clock, Claims, Seal } from "sluice-gateway/plugin";
import type { Dialogue } from "sluice-gateway/services";

/**
 * Clients do not start a new session when theirs has expired: a long lifetime costs nothing, while a short one would
 * force users to reconnect manually.
 */
const lifetimeMs = 7 * 24 * 60 * 60_000;
const purpose = "mcp session";
/**
 * A verified session is cached, because verification takes 25 µs. A replica knows within 250 ms that a session was
 * ended elsewhere, and a session must end on all replicas within one second.
 */
const freshMs = 500;
const maxFresh = 10_000;

export interface Session {
  readonly id: string;
  readonly token: string;
  /** Id of the key. It does not authenticate: every request also carries the key itself. */
  readonly key: string;
  readonly revision: string;
  readonly capabilities: Dialogue["capabilities"];
  readonly expiresAt: number;
}

export interface Sessions {
  /** Returns the value of the header. `capabilities`: names of the kinds of questions that the client answers. */
  begin(keyId: string, revision: string, capabilities: readonly string[]): string;
  /** Undefined if the token is forged, belongs to another key, was ended or has expired. */
  find(token: string, keyId: string): Session | undefined;
  /** Ends the session on every replica and after a restart. Rejects with a StoreError. */
  end(session: Session): Promise<void>;
}

export function createSessions(parts: {
  readonly seal: Seal;
  readonly claims: Pick<Claims, "end" | "hasEnded">;
  readonly clock: Clock;
}): Sessions {
  const { seal, claims, clock } = parts;
  const endOf = (id: string): string => `${purpose} ${id}`;
  const fresh = new Map<string, { readonly session: Session; readonly at: number }>();
  const verified = (token: string, keyId: string, now: number): Session | undefined => {
    const opened = seal.open(purpose, token);
    if (opened === undefined || opened.expiresAt <= now) return undefined;
    // Only `begin` seals values for this purpose.
    const { i, k, r, c = [] } = opened.value as { i: string; k: string; r: string; c?: string[] };
    if (k !== keyId || claims.hasEnded(endOf(i))) return undefined;
    const capabilities = Object.fromEntries(c.map((name) => [name, {}]));
    return { id: i, token, key: k, revision: r, capabilities, expiresAt: opened.expiresAt };
  };
  return {
    begin(keyId, revision, capabilities) {
      const ticket = { i: randomUUID(), k: keyId, r: revision, c: capabilities };
      return seal.seal(purpose, ticket, clock.now() + lifetimeMs);
    },
    find(token, keyId) {
      const now = clock.now();
      const known = fresh.get(token);
      if (
        known !== undefined &&
        known.session.key === keyId &&
        isFresh(known.at, now) &&
        known.session.expiresAt > now
      ) {
        return known.session;
      }
      const session = verified(token, keyId, now);
      if (session === undefined) return undefined;
      if (fresh.size >= maxFresh) fresh.clear();
      fresh.set(token, { session, at: now });
      return session;
    },
    end({ id, token, expiresAt }) {
      fresh.delete(token);
      return claims.end(endOf(id), expiresAt);
    },
  };
}

/** If the wall clock is set back, no cached session counts as fresh. */
function isFresh(at: number, now: number): boolean {
  return now >= at && now - at < freshMs;
}
