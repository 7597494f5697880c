/** Checks of the options that a schema cannot express. */
import type { FieldChanges } from "sluice-gateway/plugin";

interface OptionFault {
  readonly pointer: string;
  readonly message: string;
}

/** Fields that frame a message or apply to one connection, so that each sender sets them itself. */
const senders: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Returns the faults of a `set` with fields that an operator cannot set. */
export function fieldFaults(pointer: string, changes: FieldChanges | undefined): OptionFault[] {
  return Object.keys(changes?.set ?? {})
    .filter((name) => senders.has(name.toLowerCase()))
    .map((name) => ({
      pointer: `${pointer}/set/${name.replaceAll("~", "~0")}`,
      message: `${name} belongs to the connection and cannot be set`,
    }));
}

/** Returns the reason why requests cannot be forwarded to a URL. Undefined if they can. */
export function urlFault(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return `"${text}" is not a url`;
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return `forward supports http and https, not ${url.protocol.slice(0, -1)}`;
  }
  if (url.username !== "" || url.password !== "") {
    return "a url to forward to must not contain credentials: set an authorization header instead";
  }
  return url.search === "" && url.hash === ""
    ? undefined
    : "a url to forward to must not contain a query or a fragment";
}
