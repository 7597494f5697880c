import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import type { RequestHead } from "../plugin.ts";

export interface ClientSocket {
  readonly remoteAddress?: string | undefined;
  /** Number of bytes that have arrived. Over HTTP/2, only those of this request's body. */
  readonly bytesRead: number;
  readonly encrypted?: boolean;
}

export interface RequestBody extends Readable {
  /** False if the connection cannot be used again before the rest of the body has been read. */
  readonly complete: boolean;
  readonly headers: IncomingHttpHeaders;
}

/** The head of a request: a message of node:http, or what the fast path or HTTP/2 has read. */
export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersionMinor: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly socket: ClientSocket;
}

export interface RoutedRequest {
  readonly req: ClientRequest;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly params: Readonly<Record<string, string>>;
}

export interface AddressResolver {
  addressOf(request: ClientRequest): string;
  peerOf(request: ClientRequest): RequestHead["peer"];
}

/** The address of the client is read on demand, and only once, because the socket forgets it when it closes. */
export class LiveRequestHead implements RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly target: string;
  readonly params: Readonly<Record<string, string>>;
  readonly #req: ClientRequest;
  readonly #addresses: AddressResolver;
  #address: string | undefined;

  constructor(request: RoutedRequest, addresses: AddressResolver) {
    this.method = request.req.method ?? "";
    this.path = request.path;
    this.query = request.query;
    this.target = request.target;
    this.params = request.params;
    this.#req = request.req;
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
