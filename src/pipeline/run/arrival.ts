/** A request as it came off the wire, and its head as plugins see it. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { AcceptOptions, Connection, RequestHead } from "../../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import type { ClientResponse } from "./response.ts";

/** The head of a request: node:http's message is one, or what the fast path has read. */
export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMinor: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
}

/** A request as the router found it. */
export interface Arrival {
  readonly req: ClientRequest;
  /** The message it is read from, or all of it where it came with the head. */
  readonly body: IncomingMessage | Buffer;
  readonly res: ClientResponse;
  readonly path: string;
  readonly query: string;
  /** Path and query as received. */
  readonly target: string;
  readonly params: Readonly<Record<string, string>>;
  /** The client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
  /** Value of `Allow` when the path exists and the method does not. */
  readonly allow: string | undefined;
  /** The client asks for a WebSocket, on a route that has one. */
  readonly upgrade?: Upgrade | undefined;
}

/** A WebSocket that a client asks for (src/http/websocket.ts). */
export interface Upgrade {
  accept(x: LiveExchange, options: AcceptOptions): Promise<Connection>;
}

/** Who sent a request, behind the trusted proxies (src/http/address.ts). */
export interface Addresses {
  addressOf(request: ClientRequest): string;
  peerOf(request: ClientRequest): RequestHead["peer"];
}

/** Addresses are read when they are asked for, the client's once: its socket forgets it when it closes. */
export class LiveRequestHead implements RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly params: Readonly<Record<string, string>>;
  readonly #req: ClientRequest;
  readonly #addresses: Addresses;
  #address: string | undefined;

  constructor(arrival: Arrival, addresses: Addresses) {
    this.method = arrival.req.method ?? "";
    this.path = arrival.path;
    this.query = arrival.query;
    this.target = arrival.target;
    this.params = arrival.params;
    this.#req = arrival.req;
    this.#addresses = addresses;
  }

  get headers(): IncomingHttpHeaders {
    return this.#req.headers;
  }

  get rawHeaders(): readonly string[] {
    return this.#req.rawHeaders;
  }

  get address(): string {
    this.#address ??= this.#addresses.addressOf(this.#req);
    return this.#address;
  }

  get peer(): RequestHead["peer"] {
    return this.#addresses.peerOf(this.#req);
  }

  get hasBody(): boolean {
    const { "content-length": length, "transfer-encoding": coding } = this.#req.headers;
    return coding !== undefined || (length !== undefined && length !== "0");
  }
}
