/**
 * Sessions of signed-in users. The key is sent once, to sign in. After that, the browser has a sealed cookie with the
 * key's id, which scripts cannot read. If the page kept the key in memory instead, any injected script could read it,
 * and users would have to enter it after every reload. The key is looked up at every request, so a key that is revoked
 * or loses its capabilities has no access at once. The session of a user of the OpenID provider has their role instead,
 * which is checked against the options at every request.
 */
import { randomUUID } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { addressList } from "sluice-gateway/internal/http";
import type { Capability, KeyRecord, Workspace } from "sluice-gateway/services";
import { isSecurePage, openCookie, setCookie, type CookieKind } from "./cookies.ts";
import type { OidcUser } from "./oidc/user.ts";
import type { DashboardDeps } from "./deps.ts";
import { addressOf } from "./request-address.ts";

const purpose = "dashboard session";
const kind: CookieKind = {
  prefix: "sluice_dashboard",
  path: "/dashboard",
  sameSite: "Strict",
};
/** Lifetime of a session: a working day. After that, the user must sign in again. */
const lifeMs = 8 * 3_600_000;

export interface Viewer extends Account {
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

interface Account {
  readonly by: { readonly key: KeyRecord } | { readonly user: OidcUser };
  /** Id of the key, or `oidc:` and the subject of the user. */
  readonly id: string;
  /** The author of changes in the audit log: the id, and the e-mail address of a user. */
  readonly actor: string;
  /** The workspace of the key or of the user. Undefined for a user of the whole deployment. */
  readonly workspace: Workspace | undefined;
  /** The only workspace that the viewer may see. Undefined for the whole deployment. */
  readonly only: string | undefined;
  readonly mayChange: boolean;
}

export function isOutside({ only }: Pick<Viewer, "only">, workspaceId?: string): boolean {
  return only !== undefined && workspaceId !== undefined && workspaceId !== only;
}

export type SessionOf = { readonly key: string } | { readonly user: OidcUser };

export interface SessionRef {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface Sessions {
  begin(of: SessionOf, request: FastifyRequest, origin: string | undefined): string;
  /** Returns the viewer. Undefined if there is no session, or it has ended. Rejects with a StoreError. */
  viewer(request: FastifyRequest): Promise<Viewer | undefined>;
  current(request: FastifyRequest): SessionRef | undefined;
  /** Ends a session, for every gateway on this store and after a restart. Rejects with a StoreError. */
  end(session: SessionRef | undefined): Promise<void>;
  noCookie(request: FastifyRequest): string;
}

type Note = SessionOf & {
  readonly id: string;
  readonly isSecure: boolean;
};

/** `isStillValid`: returns false if the options do not give a user their role any more. */
export function createSessions(
  deps: DashboardDeps,
  isStillValid: (user: OidcUser) => boolean,
): Sessions {
  const { seal, claims, clock } = deps;
  const { admin } = deps.accounts;

  const openToken = (token: string, isSecure: boolean): (Note & SessionRef) | undefined => {
    const opened = seal.open(purpose, token);
    if (opened === undefined || clock.now() >= opened.expiresAt) return undefined;
    // Only `begin` seals for this purpose.
    const note = opened.value as Note;
    if (note.isSecure !== isSecure || claims.hasEnded(endOf(note))) return undefined;
    return { ...note, expiresAt: opened.expiresAt };
  };
  const open = (request: FastifyRequest): (Note & SessionRef) | undefined =>
    openCookie(kind, request, openToken);

  const ofUser = async (user: OidcUser): Promise<Account | undefined> => {
    if (!isStillValid(user)) return undefined;
    const { workspaceId: only } = user;
    const workspace = only === undefined ? undefined : await admin.findWorkspace(only);
    if (only !== undefined && workspace === undefined) return undefined;
    return { by: { user }, ...namesOf(user), workspace, only, mayChange: user.role !== "viewer" };
  };

  return {
    begin(of, request, origin) {
      const isSecure = isSecurePage(origin);
      const note: Note = { ...of, id: randomUUID(), isSecure };
      const token = seal.seal(purpose, note, clock.now() + lifeMs);
      return setCookie(kind, request, token, { seconds: lifeMs / 1000, isSecure });
    },
    async viewer(request) {
      const session = open(request);
      if (session === undefined) return undefined;
      const account =
        "user" in session
          ? await ofUser(session.user)
          : await ofKey(deps, session.key, addressOf(request));
      return account && { ...account, expiresAt: session.expiresAt };
    },
    current(request) {
      const session = open(request);
      return session && { id: session.id, expiresAt: session.expiresAt };
    },
    async end(session) {
      if (session !== undefined) await claims.end(endOf(session), session.expiresAt);
    },
    noCookie(request) {
      const isSecure = isSecurePage(request.headers.origin);
      return setCookie(kind, request, "", { seconds: 0, isSecure });
    },
  };
}

async function ofKey(
  { accounts: { admin }, environment }: DashboardDeps,
  id: string,
  address: string,
): Promise<Account | undefined> {
  const key = await admin.findKey(id);
  // Another deployment may use the same store.
  if (key?.environment !== environment || admin.keyState(key) !== "active") return undefined;
  if (!mayEnter(key, address)) return undefined;
  const workspace = await admin.findWorkspace(key.workspaceId);
  if (workspace === undefined) return undefined;
  const only = key.capabilities.has("platform:admin") ? undefined : key.workspaceId;
  return { by: { key }, id, actor: id, workspace, only, mayChange: true };
}

function namesOf({ subject, email }: OidcUser): Pick<Account, "id" | "actor"> {
  const id = `oidc:${subject}`;
  return { id, actor: email === undefined ? id : `${id} (${email})` };
}

/** Returns the id of a session in `host.claims`. */
function endOf({ id }: Pick<Note, "id">): string {
  return `${purpose} ${id}`;
}

export function maySignIn(granted: ReadonlySet<Capability>): boolean {
  return granted.has("platform:admin") || granted.has("workspace:admin");
}

function mayEnter(key: KeyRecord, address: string): boolean {
  if (!maySignIn(key.capabilities)) return false;
  return key.allowedAddresses === undefined || addressList(key.allowedAddresses)(address);
}
