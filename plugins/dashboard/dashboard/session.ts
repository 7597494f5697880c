/**
 * Sessions of signed-in users. The key is sent once, to sign in. After that, the browser has a sealed cookie with the
 * key's id, which scripts cannot read. If the page kept the key in memory instead, any injected script could read it,
 * and users would have to enter it after every reload. The key is looked up at every request, so a key that is revoked
 * or loses its capabilities has no access at once.
 */
import { randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { addressList, addressReader } from "sluice-gateway/http";
import type { Capability, KeyRecord, Workspace } from "sluice-gateway/services";
import type { DashboardParts } from "./parts.ts";

const purpose = "dashboard session";
/** A working day. After that, the user must sign in again. */
const lifeMs = 8 * 3_600_000;

/** A signed-in user, and what they may see. */
export interface Viewer {
  readonly key: KeyRecord;
  readonly workspace: Workspace;
  /** The only workspace that the viewer may see. Undefined for the whole deployment. */
  readonly only: string | undefined;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface Sessions {
  /** Returns the cookie of a new session for this key. */
  begin(keyId: string, request: FastifyRequest): string;
  /** Returns the viewer. Undefined if there is no session, or it has ended. Rejects with a StoreError. */
  viewer(request: FastifyRequest): Promise<Viewer | undefined>;
  /** Ends the session of this request, for every gateway on this store and after a restart. Rejects with a StoreError. */
  end(request: FastifyRequest): Promise<void>;
  /** Returns the cookie that removes the session's cookie. */
  noCookie(request: FastifyRequest): string;
}

interface Note {
  readonly id: string;
  readonly key: string;
}

export function createSessions(parts: DashboardParts): Sessions {
  const { seal, claims, environment, clock } = parts;
  const { admin } = parts.accounts;

  const open = (request: FastifyRequest): (Note & { expiresAt: number }) | undefined => {
    const token = cookieOf(request);
    const opened = token === undefined ? undefined : seal.open(purpose, token);
    if (opened === undefined || clock.now() >= opened.expiresAt) return undefined;
    // Only `begin` seals for this purpose.
    const note = opened.value as Note;
    return claims.hasEnded(endOf(note)) ? undefined : { ...note, expiresAt: opened.expiresAt };
  };

  return {
    begin(keyId, request) {
      const note: Note = { id: randomUUID(), key: keyId };
      const token = seal.seal(purpose, note, clock.now() + lifeMs);
      return cookie(request, token, lifeMs / 1000);
    },
    async viewer(request) {
      const session = open(request);
      if (session === undefined) return undefined;
      const key = await admin.findKey(session.key);
      // Another deployment may use the same store.
      if (key?.environment !== environment || admin.keyState(key) !== "active") return undefined;
      if (!mayEnter(key, addressOf(request))) return undefined;
      const workspace = await admin.findWorkspace(key.workspaceId);
      if (workspace === undefined) return undefined;
      return {
        key,
        workspace,
        only: key.capabilities.has("platform:admin") ? undefined : key.workspaceId,
        expiresAt: session.expiresAt,
      };
    },
    async end(request) {
      const session = open(request);
      if (session !== undefined) await claims.end(endOf(session), session.expiresAt);
    },
    noCookie: (request) => cookie(request, "", 0),
  };
}

/** Returns the id of a session in `host.claims`. */
function endOf({ id }: Note): string {
  return `${purpose} ${id}`;
}

const socketAddress = addressReader([]);

/** Returns the address of the socket's peer. */
export function addressOf(request: FastifyRequest): string {
  return socketAddress(request.raw);
}

/** Returns true if a key with these capabilities may open the dashboard. */
export function maySignIn(granted: ReadonlySet<Capability>): boolean {
  return granted.has("platform:admin") || granted.has("workspace:admin");
}

function mayEnter(key: KeyRecord, address: string): boolean {
  if (!maySignIn(key.capabilities)) return false;
  return key.allowedAddresses === undefined || addressList(key.allowedAddresses)(address);
}

/** The name contains the port, because cookies ignore ports and two gateways on one machine need separate sessions. */
function cookieName(request: FastifyRequest): string {
  return `sluice_dashboard_${request.socket.localPort ?? 0}`;
}

/** Adds `Secure` if the page was loaded over TLS (from a proxy), which the origin of the request shows. */
function cookie(request: FastifyRequest, value: string, seconds: number): string {
  const secure = request.headers.origin?.startsWith("https://") === true ? "; Secure" : "";
  const name = cookieName(request);
  return `${name}=${value}; Path=/dashboard; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`;
}

/**
 * Returns the session cookie. Undefined if there is none or more than one, because other servers on this host can set
 * cookies, and users must not work in a session that is not theirs.
 */
function cookieOf(request: FastifyRequest): string | undefined {
  const head = `${cookieName(request)}=`;
  const pairs = (request.headers.cookie ?? "").split(";").map((pair) => pair.trim());
  const [own, ...planted] = pairs.filter((pair) => pair.startsWith(head));
  return planted.length === 0 ? own?.slice(head.length) : undefined;
}
