import { createServer, type AddressInfo, type Server } from "node:net";
import { messageOf } from "../base/message-of.ts";
import { errorCode } from "../base/error-code.ts";

export type ListenSection = "server" | "admin";

export interface BoundAddress {
  readonly section: ListenSection;
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly reusePort?: boolean;
}

/** `backlog`: how many connections may wait to be accepted. Rejects with a `ListenError` if the system refuses it. */
export async function bind(http: Server, address: BoundAddress, backlog: number): Promise<void> {
  const { promise, resolve, reject: fail } = Promise.withResolvers<void>();
  const { host, port, reusePort = false } = address;
  http.once("error", fail);
  http.listen({ host, port, backlog, reusePort }, resolve);
  try {
    await promise;
  } catch (error) {
    throw new ListenError(address, error);
  }
  http.off("error", fail);
}

/**
 * Returns the address to listen on. Threads share a port with any process of the same user that also shares it, so this
 * first takes the port alone. Rejects with a `ListenError` if the port is in use.
 */
export async function freeAddress(
  address: BoundAddress,
): Promise<{ readonly host: string; readonly port: number }> {
  const probe = createServer((socket) => socket.destroy());
  await bind(probe, address, 1);
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  const { address: host, port } = probe.address() as AddressInfo;
  const { promise, resolve } = Promise.withResolvers<void>();
  probe.close(() => resolve());
  await promise;
  return { host, port };
}

/** Returns the address in the form of URLs, with brackets around IPv6. */
export function authorityOf(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export class ListenError extends Error {
  readonly section: ListenSection;
  readonly remedy: string;
  /** Error code of the system, such as EADDRINUSE or EACCES. */
  readonly code: string;

  constructor({ section, host, port }: BoundAddress, cause: unknown) {
    const code = errorCode(cause) ?? "";
    const reason = messageOf(cause);
    super(`cannot listen on ${authorityOf(host, port)}: ${reasons[code] ?? reason}`, { cause });
    this.name = "ListenError";
    this.code = code;
    this.section = section;
    this.remedy = remedyFor(code, section, port);
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: "the address is already in use (EADDRINUSE)",
  EACCES: "this user is not permitted to use the port (EACCES)",
  EADDRNOTAVAIL: "this machine does not have the address (EADDRNOTAVAIL)",
  ENOTFOUND: "the host name cannot be resolved (ENOTFOUND)",
  EAI_AGAIN: "the host name cannot be resolved at the moment (EAI_AGAIN)",
};

/** Lowest port that any user may use: Linux and macOS reserve lower ones for the administrator. */
const firstOpenPort = 1024;

function remedyFor(code: string, section: ListenSection, port: number): string {
  const [portVariable, hostSetting] =
    section === "server"
      ? ["PORT", "server.host (HOST)"]
      : ["ADMIN_PORT", "admin.host (ADMIN_HOST)"];
  switch (code) {
    case "EACCES":
      return port < firstOpenPort
        ? `Choose port ${firstOpenPort} or higher (${section}.port, ${portVariable}), or allow the process to use lower ports (CAP_NET_BIND_SERVICE).`
        : `Choose another port (${section}.port, ${portVariable}), or allow the process to use this one.`;
    case "EADDRNOTAVAIL":
      return `Set ${hostSetting} to an address of this machine, or to 0.0.0.0 for all addresses.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `Set ${hostSetting} to an address of this machine, or to a name that resolves to one.`;
    default:
      return "Stop the process that uses the address, or choose another one: `server` and `admin` in pipeline.yaml, PORT and ADMIN_PORT in the environment.";
  }
}
