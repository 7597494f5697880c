/**
 * The permissions in the manifest of a plugin, and the grants that its host derives from them. A plugin runs in the
 * process of the gateway and is trusted code: the permissions determine what the host returns, and help people to
 * review a plugin. They are not a sandbox.
 */
import { isObject } from "../base/is-object.ts";

/**
 * Access of the hooks of a step to bodies. `none`: the step has none of the hooks `requestBody`, `responseChunk` and
 * `responseFlush`. `read`: its hooks get bodies, but do not change them.
 */
export type BodyAccess = "none" | "read" | "write";

/**
 * A part of the deployment that all plugins share, as the member of `host` with this name. `store`: the data folder and
 * the shared databases. `seal`: tokens and keys that are derived from the secret of the deployment. `claims`: ids that
 * can be used once; a plugin can use up and end those of other plugins.
 */
export type DeploymentPart = "store" | "seal" | "claims";

/** The member `permissions` of a manifest. A missing member permits nothing. */
export interface Permissions {
  /**
   * Servers that `host.upstream` connects to, as `host:port` (`api.acme.com:443`). `*` means any server, for a plugin
   * whose options name it.
   */
  readonly hosts?: readonly string[];
  /** Environment variables that `host.variable` returns. */
  readonly env?: readonly string[];
  readonly body?: BodyAccess;
  /** Members of `host` that reach more than the data of the plugin. */
  readonly deployment?: readonly DeploymentPart[];
}

/** A plugin asked its host for something that its manifest does not permit. */
export class PermissionError extends Error {}

/**
 * The parts of the gateway that a manifest lets the plugin get from its host. Some members of `host` need no
 * permission: see host.ts.
 */
export interface Grants {
  /** The services under `uses` and `usesIfInstalled`, in alphabetical order. */
  readonly services: readonly string[];
  readonly hosts: readonly string[];
  readonly env: readonly string[];
  readonly body: BodyAccess;
  readonly deployment: readonly DeploymentPart[];
}

/** The members of a manifest that say what its plugin gets. */
interface GrantingMembers {
  readonly uses?: readonly string[];
  readonly usesIfInstalled?: readonly string[];
  readonly permissions?: Permissions;
}

/**
 * Returns what the host gives a plugin with this manifest. A manifest without `permissions` permits bodies to be
 * changed, because contract 1.1 had no permissions.
 */
export function grantsOf({
  uses = [],
  usesIfInstalled = [],
  permissions = { body: "write" },
}: GrantingMembers): Grants {
  const { hosts = [], env = [], body = "none", deployment = [] } = permissions;
  const services = [...new Set([...uses, ...usesIfInstalled])].toSorted();
  return { services, hosts, env, body, deployment };
}

/**
 * Returns the grants that a plugin asks for and that the stated ones do not contain, as texts such as `env: ACME_KEY`. A
 * missing member grants nothing. Only steps have hooks that get bodies.
 */
export function missingGrants(
  plugin: GrantingMembers & { readonly kind: string },
  { services = [], hosts = [], env = [], body = "none", deployment = [] }: Partial<Grants>,
): string[] {
  const asked = grantsOf(plugin);
  const beyond = (name: string, wanted: readonly string[], given: readonly string[]): string[] =>
    wanted.filter((each) => !given.includes(each)).map((each) => `${name}: ${each}`);
  const isBodyGranted =
    plugin.kind !== "step" || bodyAccesses.indexOf(asked.body) <= bodyAccesses.indexOf(body);
  return [
    ...beyond("services", asked.services, services),
    ...(hosts.includes("*") ? [] : beyond("hosts", asked.hosts, hosts)),
    ...beyond("env", asked.env, env),
    ...(isBodyGranted ? [] : [`body: ${asked.body}`]),
    ...beyond("deployment", asked.deployment, deployment),
  ];
}

/**
 * Returns the reason why the hooks of a step are not permitted by its manifest. Undefined if they are.
 */
export function bodyHookProblem(
  manifest: GrantingMembers,
  hooks: {
    readonly requestBody?: unknown;
    readonly responseChunk?: unknown;
    readonly responseFlush?: unknown;
  },
): string | undefined {
  if (grantsOf(manifest).body !== "none") return undefined;
  const name = (["requestBody", "responseChunk", "responseFlush"] as const).find(
    (hook) => hooks[hook] !== undefined,
  );
  if (name === undefined) return undefined;
  return `it has the hook ${name}, so \`permissions.body\` must be "read" or "write"`;
}

/** From the least access to the most. */
export const bodyAccesses: readonly BodyAccess[] = ["none", "read", "write"];
export const deploymentParts: readonly DeploymentPart[] = ["store", "seal", "claims"];
const members = ["hosts", "env", "body", "deployment"];

/** Returns the reasons why `value` is not a valid member `permissions` of a manifest. Empty if it is valid. */
export function permissionProblems(value: unknown): string[] {
  if (value === undefined) return [];
  if (!isObject(value)) return ["`permissions` must be an object"];
  const { hosts, env, body, deployment } = value;
  const problems = Object.keys(value)
    .filter((key) => !members.includes(key))
    .map((key) => `unknown member "${key}" in \`permissions\`: expected ${members.join(", ")}`);
  if (!isListOf(hosts, isHost)) {
    problems.push(
      '`permissions.hosts` must be a list of servers, such as "api.acme.com:443" or "*"',
    );
  }
  if (!isListOf(env, isVariable)) {
    problems.push("`permissions.env` must be a list of names of environment variables");
  }
  if (body !== undefined && !bodyAccesses.some((each) => each === body)) {
    problems.push("`permissions.body` must be one of none, read, write");
  }
  if (!isListOf(deployment, (part) => deploymentParts.some((each) => each === part))) {
    problems.push(`\`permissions.deployment\` must be a list of ${deploymentParts.join(", ")}`);
  }
  return problems;
}

function isListOf(value: unknown, isItem: (item: string) => boolean): boolean {
  if (value === undefined) return true;
  return Array.isArray(value) && value.every((item) => typeof item === "string" && isItem(item));
}

/** A host name, an IPv4 address or an IPv6 address in brackets, in lower case, with a port. */
function isHost(text: string): boolean {
  return text === "*" || /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\]):[1-9]\d{0,4}$/.test(text);
}

function isVariable(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);
}
