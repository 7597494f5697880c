/** Maps the claims of the OpenID provider to a user with a role. Claims are hostile input. */
import { hash } from "node:crypto";
import type { Environment } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";

/** The roles, those with more rights first. A user who has several gets the first one. */
const roles = ["admin", "workspaceAdmin", "viewer"] as const;
type Role = (typeof roles)[number];

/** The options after validation, with defaults. */
export interface OidcSection {
  readonly issuer?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly rolesClaim: ClaimName;
  readonly roles?: Readonly<Partial<Record<Role, readonly string[]>>>;
  readonly workspaceClaim: ClaimName;
}

/** The name of a claim, or the path of names to a nested one. */
type ClaimName = string | readonly string[];

export type OidcOptions = Required<OidcSection>;

export type Claims = Readonly<Record<string, unknown>>;

/** A user of the OpenID provider. A session contains it, in a cookie of at most 4,096 bytes. */
export interface OidcUser {
  /** See `providerId`. */
  readonly provider: string;
  readonly subject: string;
  readonly email?: string;
  readonly role: Role;
  /** The value of the claim that gave the role. */
  readonly value: string;
  /** The only workspace that the user may see. Undefined for the whole deployment. */
  readonly workspaceId?: string;
}

/** Returns a short text that depends on the provider, the client, the claims that are read and the environment. */
export function providerId(
  { issuer, clientId, rolesClaim, workspaceClaim }: OidcOptions,
  environment: Environment,
): string {
  const all = [issuer, clientId, rolesClaim, workspaceClaim, environment];
  return hash("sha256", JSON.stringify(all), "base64url");
}

export function hasRole(
  { provider, role, value }: OidcUser,
  options: OidcOptions,
  environment: Environment,
): boolean {
  const isMapped = options.roles[role]?.includes(value) === true;
  return isMapped && provider === providerId(options, environment);
}

/** OpenID Connect Core section 2 allows 255 ASCII characters. Spaces would make the audit log ambiguous. */
const subjectForm = /^[!-~]{1,255}$/;
/** RFC 5321 limits a path to 256 characters. */
const emailForm = /^[!-'*-~]{1,254}$/;
const workspaceForm = /^[\w-]{1,64}$/;

export function userOf(
  claims: Claims,
  options: OidcOptions,
  environment: Environment,
): { readonly user: OidcUser } | { readonly refused: string } {
  const { sub: subject, email, email_verified: isVerified } = claims;
  if (typeof subject !== "string" || !subjectForm.test(subject)) {
    return { refused: "the provider sent a subject that is not 1 to 255 visible ASCII characters" };
  }
  const found = roleIn(textsAt(claims, options.rolesClaim), options);
  if (found === undefined) {
    return {
      refused: `your account has no role here; its claim ${nameOf(options.rolesClaim)} has none of the values that give one`,
    };
  }
  const user = {
    provider: providerId(options, environment),
    subject,
    // An address that the user has entered and that was not verified could belong to another person.
    ...(typeof email === "string" &&
      emailForm.test(email) &&
      isVerified !== false &&
      isVerified !== "false" && { email }),
    ...found,
  };
  if (found.role !== "workspaceAdmin") return { user };
  const [workspaceId = "", ...more] = textsAt(claims, options.workspaceClaim);
  if (!workspaceForm.test(workspaceId) || more.length > 0) {
    const name = nameOf(options.workspaceClaim);
    return { refused: `your role needs the id of one workspace in the claim ${name}` };
  }
  return { user: { ...user, workspaceId } };
}

function roleIn(
  given: readonly string[],
  options: OidcOptions,
): { readonly role: Role; readonly value: string } | undefined {
  for (const role of roles) {
    const value = options.roles[role]?.find((each) => given.includes(each));
    if (value !== undefined) return { role, value };
  }
  return undefined;
}

/** Returns false if the userinfo endpoint must be asked for the role or its workspace. */
export function isComplete(claims: Claims, options: OidcOptions): boolean {
  if (claimAt(claims, options.rolesClaim) === undefined) return false;
  const found = roleIn(textsAt(claims, options.rolesClaim), options);
  return found?.role !== "workspaceAdmin" || claimAt(claims, options.workspaceClaim) !== undefined;
}

/** Adds the claims of the userinfo endpoint. Claims of the ID token take precedence, even inside nested claims. */
export function mergeClaims(token: Claims, userinfo: Claims): Claims {
  const merged = Object.entries(token).map(([name, value]): [string, unknown] => {
    const other = Object.hasOwn(userinfo, name) ? userinfo[name] : undefined;
    return [name, isObject(value) && isObject(other) ? mergeClaims(value, other) : value];
  });
  return Object.fromEntries<unknown>([...Object.entries(userinfo), ...merged]);
}

function claimAt(claims: Claims, name: ClaimName): unknown {
  let found: unknown = claims;
  for (const member of [name].flat()) {
    if (!isObject(found) || !Object.hasOwn(found, member)) return undefined;
    found = found[member];
  }
  return found;
}

function textsAt(claims: Claims, name: ClaimName): string[] {
  return [claimAt(claims, name)].flat().filter((each) => typeof each === "string");
}

function nameOf(name: ClaimName): string {
  return `"${[name].flat().join(".")}"`;
}
