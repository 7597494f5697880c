/**
 * `Mcp-Session-Id` of the revisions with `initialize`: a sealed token that says itself whose session it is and which
 * revision was agreed. Any replica can read it after any restart; nothing is stored but the sessions that were ended.
 */
import { randomUUID } from "node:crypto";
import type { Claims, Clock, Seal } from "sluice-gateway/plugin";

/** Clients do not begin again when a session is gone: a long life costs nothing, a short one a restart by hand. */
const lifetimeMs = 7 * 24 * 60 * 60_000;
const purpose = "mcp session";

export interface Session {
  readonly id: string;
  /** The key's id. Never enough to get in: the key itself comes with every request. */
  readonly key: string;
  readonly revision: string;
  readonly expiresAt: number;
}

export interface Sessions {
  /** The value of the header. */
  begin(keyId: string, revision: string): string;
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
  return {
    begin(keyId, revision) {
      const ticket = { i: randomUUID(), k: keyId, r: revision };
      return seal.seal(purpose, ticket, clock.now() + lifetimeMs);
    },
    find(token, keyId) {
      const opened = seal.open(purpose, token);
      if (opened === undefined || opened.expiresAt <= clock.now()) return undefined;
      // What is sealed for this purpose was made above.
      const { i, k, r } = opened.value as { i: string; k: string; r: string };
      if (k !== keyId || claims.has(claimOf(i))) return undefined;
      return { id: i, key: k, revision: r, expiresAt: opened.expiresAt };
    },
    end({ id, expiresAt }) {
      claims.claim(claimOf(id), expiresAt);
    },
  };
}
