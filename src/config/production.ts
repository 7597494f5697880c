/** Finds settings that are valid but should not go to production, for `sluice check --strict`. */
import { addressList } from "../base/address-list.ts";
import type { SluiceCode } from "../base/errors.ts";
import { pointerKey } from "../base/json-pointer.ts";
import type { Config } from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { splitUrls } from "./formats.ts";
import { isLoopback } from "./loopback.ts";
import { hostsOf, parseRedisUrl } from "../store/redis/redis-url.ts";

export interface ProductionProblem {
  readonly code: SluiceCode;
  /** JSON Pointer in pipeline.yaml, such as `/metering/durability`. */
  readonly pointer: string;
  readonly message: string;
}

export type ProductionCheck = (
  sections: Readonly<Record<string, unknown>>,
) => readonly ProductionProblem[];

/** A shorter secret can be guessed. `openssl rand -hex 16` prints 32 characters. */
const minSecretLength = 32;

export function productionFaults(config: Config, checks: readonly ProductionCheck[]): Fault[] {
  const problems = [
    ...gatewayProblems(config),
    ...routeProblems(config),
    ...storeProblems(config),
    ...upstreamProblems(config),
    ...checks.flatMap((check) => check(config.sections)),
  ];
  return problems.map(({ code, pointer, message }) =>
    fault(code, message, { at: config.keyAt(pointer) }),
  );
}

function gatewayProblems({ environment, secret, admin, server }: Config): ProductionProblem[] {
  const problems: ProductionProblem[] = [];
  const add = (code: SluiceCode, pointer: string, message: string): void =>
    void problems.push({ code, pointer, message });
  if (environment !== "prod") {
    add("SLUICE_STRICT_ENVIRONMENT", "/environment", `the environment is "${environment}"`);
  }
  if (secret === undefined) {
    add("SLUICE_STRICT_SECRET", "/secret", "no secret is set");
  } else if (secret.length < minSecretLength) {
    const message = `the secret has ${secret.length} characters, fewer than ${minSecretLength}`;
    add("SLUICE_STRICT_SECRET", "/secret", message);
  }
  if (!isPrivateHost(admin.host)) {
    const message = `the admin listener, whose metrics need no key, is reachable at ${admin.host}`;
    add("SLUICE_STRICT_ADMIN", "/admin/host", message);
  }
  if (!isPrivateHost(server.host) && server.tls === undefined && server.trustProxy.length === 0) {
    const message = `clients reach ${server.host} without TLS, and no proxy is listed in server.trustProxy`;
    add("SLUICE_STRICT_LISTENER", "/server/host", message);
  }
  return problems;
}

/** A route without `run:` may be public by mistake. `run: []` says that it is meant to be public. */
function routeProblems({ routes, keysOf }: Config): ProductionProblem[] {
  return routes.flatMap(({ path }, index): ProductionProblem[] => {
    const pointer = `/routes/${index}`;
    if (keysOf(pointer).includes("run")) return [];
    const message = `the route ${path} is public: it has no \`run:\``;
    return [{ code: "SLUICE_STRICT_PUBLIC", pointer, message }];
  });
}

function upstreamProblems(config: Config): ProductionProblem[] {
  // The service `upstreams` has validated the section.
  const entries = (config.sections["upstreams"] ?? {}) as Readonly<
    Record<string, { readonly urls?: string | readonly string[] } | null>
  >;
  return Object.entries(entries).flatMap(([name, entry]): ProductionProblem[] => {
    const pointer = `/upstreams/${pointerKey(name)}/urls`;
    if (config.isDefault(pointer)) {
      const message = `the upstream "${name}" has the default URL, because its variable is not set`;
      return [{ code: "SLUICE_STRICT_DEFAULT", pointer, message }];
    }
    return plaintextProblems(`the upstream "${name}"`, pointer, [entry?.urls ?? []].flat());
  });
}

/** The stores get data of callers, and the connection has their password. */
function storeProblems({ store }: Pick<Config, "store">): ProductionProblem[] {
  const problem = (member: string, place: string): ProductionProblem => ({
    code: "SLUICE_STRICT_PLAINTEXT",
    pointer: `/store/${member}`,
    message: `store.${member} is reached without TLS: ${place}`,
  });
  const problems: ProductionProblem[] = [];
  const postgres = URL.parse(store.postgres ?? "");
  if (postgres !== null && isPlainPostgres(postgres)) {
    problems.push(problem("postgres", postgres.host));
  }
  const redis = parseRedisUrl(store.redis ?? "");
  if (redis?.isTls === false && redis.hosts.some(({ host }) => !isLoopback(host))) {
    problems.push(problem("redis", hostsOf(redis)));
  }
  return problems;
}

/** Without `sslmode`, the driver does not use TLS. A URL without a host names a socket of this machine. */
function isPlainPostgres({ hostname, searchParams }: URL): boolean {
  const mode = searchParams.get("sslmode") ?? "disable";
  const isTls = mode !== "disable" || ["true", "1"].includes(searchParams.get("ssl") ?? "");
  const host = decodeURIComponent(searchParams.get("host") ?? hostname);
  return !isTls && host !== "" && !host.startsWith("/") && !isLoopback(host);
}

export function plaintextProblems(
  what: string,
  pointer: string,
  urls: readonly string[],
): ProductionProblem[] {
  return urls.flatMap(splitUrls).flatMap((text) => {
    const url = URL.parse(text);
    if (url === null || !["http:", "ws:"].includes(url.protocol)) return [];
    if (isLoopback(url.hostname)) return [];
    // The rest of the URL may contain a key.
    const message = `${what} is reached without TLS: ${url.protocol}//${url.host}`;
    return [{ code: "SLUICE_STRICT_PLAINTEXT" as const, pointer, message }];
  });
}

/** Loopback, link-local and private addresses: RFC 1918, RFC 4193, RFC 6598. */
const privateBlocks = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "169.254.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
  "fe80::/10",
];

function isPrivateHost(host: string): boolean {
  return addressList(privateBlocks)(host) || isLoopback(host);
}
