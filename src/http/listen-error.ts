import { messageOf } from "../base/message-of.ts";
import { errorCode } from "../base/error-code.ts";

export type ListenSection = "server" | "admin";

interface Address {
  readonly section: ListenSection;
  readonly host: string;
  readonly port: number;
}

export class ListenError extends Error {
  readonly section: ListenSection;
  readonly remedy: string;
  /** Error code of the system, such as EADDRINUSE or EACCES. */
  readonly code: string;

  constructor({ section, host, port }: Address, cause: unknown) {
    const code = errorCode(cause) ?? "";
    const reason = messageOf(cause);
    const where = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    super(`cannot listen on ${where}: ${reasons[code] ?? reason}`, { cause });
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
