/** An address that the system does not let us listen on, with what the operator can do about it. */

/** The section of pipeline.yaml that names the address. */
export type ListenSection = "server" | "admin";

interface Address {
  readonly section: ListenSection;
  readonly host: string;
  readonly port: number;
}

export class ListenError extends Error {
  readonly section: ListenSection;
  readonly remedy: string;
  /** The system's: EADDRINUSE, EACCES and so on. */
  readonly code: string;

  constructor({ section, host, port }: Address, cause: unknown) {
    const code = codeOf(cause);
    const reason = cause instanceof Error ? cause.message : String(cause);
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
  EACCES: "this user is not allowed to use the port (EACCES)",
  EADDRNOTAVAIL: "this machine does not have that address (EADDRNOTAVAIL)",
  ENOTFOUND: "the host name cannot be resolved (ENOTFOUND)",
  EAI_AGAIN: "the host name cannot be resolved at the moment (EAI_AGAIN)",
};

/** Linux and macOS reserve the ports below for the administrator. */
const firstOpenPort = 1024;

function remedyFor(code: string, section: ListenSection, port: number): string {
  const [portVariable, hostSetting] =
    section === "server" ? ["PORT", "server.host (HOST)"] : ["ADMIN_PORT", "admin.host"];
  switch (code) {
    case "EACCES":
      return port < firstOpenPort
        ? `Choose a port from ${firstOpenPort} on (${section}.port, ${portVariable}), or allow the process to bind lower ones (CAP_NET_BIND_SERVICE).`
        : `Choose another port (${section}.port, ${portVariable}), or allow the process to bind this one.`;
    case "EADDRNOTAVAIL":
      return `Set ${hostSetting} to an address of this machine, or to 0.0.0.0 for all of them.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `Correct ${hostSetting}: an address of this machine, or a name that resolves to one.`;
    default:
      return "Stop what uses the address, or choose another: `server` and `admin` in pipeline.yaml, PORT and ADMIN_PORT in the environment.";
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
