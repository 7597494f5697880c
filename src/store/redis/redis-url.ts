/** URLs of `store.redis`. Those of Sentinel and of a Cluster can list several hosts, which `URL` does not parse. */

export interface RedisPlace {
  readonly kind: "server" | "sentinel" | "cluster";
  /** The server, the Sentinels, or some nodes of the Cluster. There is at least one. */
  readonly hosts: { readonly host: string; readonly port: number }[];
  readonly isTls: boolean;
  readonly username?: string;
  readonly password?: string;
  readonly db: number;
  /** Name of the master that the Sentinels watch. Empty without Sentinel. */
  readonly master: string;
}

const schemes = {
  redis: { kind: "server", port: 6379, path: /^(\d{1,5})?$/ },
  rediss: { kind: "server", port: 6379, path: /^(\d{1,5})?$/ },
  "redis+sentinel": { kind: "sentinel", port: 26_379, path: /^[\w.-]+(\/\d{1,5})?$/ },
  // A Cluster has only the database 0.
  "redis+cluster": { kind: "cluster", port: 6379, path: /^0?$/ },
} as const;

function isScheme(text: string): text is keyof typeof schemes {
  return Object.hasOwn(schemes, text);
}

export function parseRedisUrl(text: string): RedisPlace | undefined {
  const parts = /^([a-z+]+):\/\/(?:([^@/?#]*)@)?([^@/?#]+)(?:\/([^?#]*))?$/.exec(text);
  const [, scheme = "", user = "", list = "", path = ""] = parts ?? [];
  if (!isScheme(scheme)) return undefined;
  const { kind, port, path: form } = schemes[scheme];
  const written = list.split(",");
  const hosts = written.flatMap((each) => readHost(each, port) ?? []);
  const credentials = readCredentials(user);
  const isWhole = hosts.length === written.length && (kind !== "server" || hosts.length === 1);
  if (!isWhole || credentials === undefined || !form.test(path)) return undefined;
  const [master = "", db = ""] = kind === "sentinel" ? path.split("/") : ["", path];
  return { kind, hosts, isTls: scheme === "rediss", ...credentials, db: Number(db), master };
}

export function hostsOf({ hosts }: RedisPlace): string {
  return hosts.map(({ host, port }) => `${host}:${port}`).join(", ");
}

function readCredentials(text: string): Pick<RedisPlace, "username" | "password"> | undefined {
  const [username, ...rest] = text.split(":");
  const password = rest.join(":");
  try {
    return {
      ...(username !== "" && { username: decodeURIComponent(username ?? "") }),
      ...(password !== "" && { password: decodeURIComponent(password) }),
    };
  } catch {
    return undefined;
  }
}

function readHost(text: string, port: number): { host: string; port: number } | undefined {
  // URL checks the host and the port. It omits the port only if it is that of the scheme.
  const url = URL.parse(`http://${text}`);
  if (url === null) return undefined;
  const given = /:(\d+)$/.exec(text)?.[1];
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: given === undefined ? port : Number(given),
  };
}
