import net from "node:net";
import tls from "node:tls";

/** TCP keep-alive detects peers that have disappeared without closing the connection. */
const tcpKeepAliveMs = 30_000;

export interface BackendAddress {
  readonly isTls: boolean;
  /** A name or an address, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

export function addressOf(url: URL): BackendAddress {
  const isTls = url.protocol === "https:";
  return {
    isTls,
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? (isTls ? 443 : 80) : Number(url.port),
  };
}

/**
 * `onRead`: called with the number of bytes that are in `buffer`; returns false to stop reading. The socket emits no
 * `data` events, because a buffer that is used again costs no allocation per read.
 */
export function openSocket(
  { isTls, host, port }: BackendAddress,
  buffer: Buffer,
  onRead: (size: number) => boolean,
): net.Socket {
  const options = {
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: tcpKeepAliveMs,
    onread: { buffer, callback: onRead },
  };
  if (!isTls) return net.connect(options);
  const servername = net.isIP(host) === 0 ? host : undefined;
  return tls.connect({ ...options, servername, ALPNProtocols: ["http/1.1"] });
}
