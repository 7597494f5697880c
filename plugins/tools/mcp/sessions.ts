/**
 * `Mcp-Session-Id` of the revisions with `initialize`: a sealed token that says itself whose session it is and which
 * revision was agreed, and what its client can be asked. Any replica can read it after any restart; nothing is stored
 * but the sessions that were ended.
 */
import { randomUUID } from "node:crypto";
import type { Claims, Clock, Dialogue, Seal } from "sluice-gateway/plugin";

/** Clients do not begin again when a session is gone: a long life costs nothing, a short one a restart by hand. */
const lifetimeMs = 7 * 24 * 60 * 60_000;
const purpose = "mcp session";
/** A session that was just verified is not verified again (25 µs). It ends on other replicas within this time. */
const freshMs = 1_000;
const maxFresh = 10_000;

export interface Session {
  readonly id: string;
  readonly token: string;
  /** The key's id. Never enough to get in: the key itself comes with every request. */
  readonly key: string;
  readonly revision: string;
  /** What the client can be asked in the middle of a call. */
  readonly capabilities: Dialogue["capabilities"];
  readonly expiresAt: number;
}

export interface Sessions {
  /** The value of the header. `capabilities`: names of those whose questions the client answers. */
  begin(keyId: string, revision: string, capabilities: readonly string[]): string;
  /** Undefined: forged, another key's, ended or expired. */
  find(token: string, keyId: string): Session | undefined;
  end(session: Session): void;
}

export function createSessions(parts: {
  readonly seal: Seal;
  readonly claims: Claims;
  readonly clock: Clock;
}): Sessions {
  const { seal, claims, clock } = parts;
  const claimOf = (id: string): string => `${purpose} ${id}`;
  const fresh = new Map<string, { readonly session: Session; readonly at: number }>();
  const verified = (token: string, keyId: string, now: number): Session | undefined => {
    const opened = seal.open(purpose, token);
    if (opened === undefined || opened.expiresAt <= now) return undefined;
    // What is sealed for this purpose was made below.
    const { i, k, r, c = [] } = opened.value as { i: string; k: string; r: string; c?: string[] };
    if (k !== keyId || claims.has(claimOf(i))) return undefined;
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
      claims.claim(claimOf(id), expiresAt);
    },
  };
}

/** The wall clock may jump back: then nothing counts as fresh. */
function isFresh(at: number, now: number): boolean {
  return now >= at && now - at < freshMs;
}
