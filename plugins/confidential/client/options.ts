import type { ChannelOptions } from "../protocol/channel.ts";
import { clientSubprotocol, type Role } from "../protocol/hello.ts";
import { readBytes, toBase64Url, utf8 } from "../protocol/encoding.ts";
import { defaultPad, pads, type Pad } from "../protocol/limits.ts";
import { isCount } from "../protocol/strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import type { TdxCollateral } from "../verify/tdx-collateral.ts";
import { wallClock, type ClientClock } from "./clock.ts";
import { createClientMemory, type ClientMemory } from "./memory.ts";
import { openGlobalWebSocket, type OpenWebSocket } from "./socket.ts";
import { createWebChannel, type WebChannel } from "./web-channel.ts";

type OpenChannel = (options: ChannelOptions) => Promise<WebChannel>;

/**
 * Options of `connect`. The members of `VerificationPolicy` take precedence over those of the policy document. If
 * neither `imageHashes` nor `policyKey` is given, no hardware evidence is accepted, because nothing specifies which
 * images may run.
 */
export interface ConnectOptions extends Partial<VerificationPolicy> {
  /** URL of the gateway (`https://host`) or of its stream. The schemes `ws` and `wss` are accepted as well. */
  readonly url: string | URL;
  /**
   * API key, for programs on a server. In a browser it is refused unless `dangerouslyAllowBrowser` is set, because
   * anyone who opens the page can read it. Exactly one of `apiKey` and `ticket` is required.
   */
  readonly apiKey?: string;
  /** Ticket from `POST /v1/confidential/tickets`, valid for one connection; or a function that fetches one. */
  readonly ticket?: string | (() => Promise<string>);
  readonly network: string;
  readonly model: string;
  /**
   * The required place where the encryption ends. Default: as in the policy document, else `worker`. If both are
   * given, they must be equal.
   */
  readonly termination?: Role;
  /** Pinned public key of the operator's policy document: base64url of 32 bytes. */
  readonly policyKey?: string;
  /** Maximum price coefficient that is accepted; 1000 is a factor of 1. */
  readonly maxCoefficient?: number;
  /** Maximum number of completion tokens per request. Credit is reserved for this number. Default: 4096. */
  readonly maxOutputTokens?: number;
  /** Data in frames is padded to a multiple of this number of bytes: 0 (no padding), 256 or 1024. Default: 256. */
  readonly pad?: Pad;
  /** Idempotency key. Attempts with the same key are billed only once. */
  readonly idempotencyKey?: string;
  /** Allows `apiKey` in a browser. */
  readonly dangerouslyAllowBrowser?: boolean;
  /**
   * TDX: Intel's collateral, for evidence that does not include it. It is signed by Intel, so any source can be used.
   */
  readonly collateral?: TdxCollateral;
  /** Time limit for opening the connection, in milliseconds. Default: that of the whole handshake. */
  readonly connectMs?: number;
  /** Data that the client keeps between sessions. Default: one memory that all sessions of the process share. */
  readonly memory?: ClientMemory;
  /** Clock and timers. Default: the system's. */
  readonly clock?: ClientClock;
  /** Opens the encrypted channel. Default: WebCrypto, which browsers have. */
  readonly openChannel?: OpenChannel;
  /** Opens the WebSocket. Default: the global one, which browsers have. */
  readonly openWebSocket?: OpenWebSocket;
  /** Aborts the handshake. It has no effect on an open session. */
  readonly signal?: AbortSignal;
}

export interface Credential {
  readonly protocols: string[];
  readonly headers: Record<string, string> | undefined;
}

export interface Settings {
  /** Base URL for HTTP requests, without a trailing slash. */
  readonly base: string;
  readonly streamUrl: string;
  /** Key under which keysets and evidence are stored in the memory. */
  readonly endpoint: string;
  readonly network: string;
  readonly model: string;
  readonly termination: Role | undefined;
  readonly policyKey: Bytes | undefined;
  readonly policy: Partial<VerificationPolicy>;
  readonly maxCoefficient: number | undefined;
  readonly maxOutputTokens: number;
  readonly pad: Pad;
  readonly idempotencyKey: string | undefined;
  readonly collateral: TdxCollateral | undefined;
  readonly memory: ClientMemory;
  readonly clock: ClientClock;
  readonly signal: AbortSignal | undefined;
  readonly connectMs: number | undefined;
  readonly openChannel: OpenChannel;
  readonly openWebSocket: OpenWebSocket;
  credential(): Promise<Credential>;
  /** True if `credential` can be called for more than one connection. */
  readonly isReusable: boolean;
  /** Headers for plain HTTP requests. Undefined in browsers and with a ticket, which is valid only for the stream. */
  readonly headers: Record<string, string> | undefined;
}

const streamPath = "/v1/confidential/stream";
const defaultMaxOutputTokens = 4096;
let sharedMemory: ClientMemory | undefined;

/** Throws a TypeError if an option is missing or invalid. */
export function readOptions(options: ConnectOptions): Settings {
  const { network, model, termination, maxCoefficient, pad = defaultPad, memory } = options;
  const { maxOutputTokens = defaultMaxOutputTokens, clock = wallClock } = options;
  const base = readBase(options.url);
  if (!isNonEmptyString(network)) throw new TypeError("the option network is required");
  if (!isNonEmptyString(model)) throw new TypeError("the option model is required");
  if (!isCount(maxOutputTokens) || maxOutputTokens === 0) {
    throw new TypeError("maxOutputTokens must be a whole number above 0");
  }
  if (maxCoefficient !== undefined && !isCount(maxCoefficient)) {
    throw new TypeError("maxCoefficient must be a whole number, 0 or more");
  }
  if (!pads.includes(pad)) throw new TypeError(`pad must be one of ${pads.join(", ")}`);
  if (termination !== undefined && termination !== "worker" && termination !== "gateway") {
    throw new TypeError('termination must be "worker" or "gateway"');
  }
  const { idempotencyKey, collateral, signal } = options;
  return {
    base,
    streamUrl: `${base.replace(/^http/, "ws")}${streamPath}`,
    endpoint: [base, network, model, termination].join(" "),
    network,
    model,
    termination,
    policyKey: readPolicyKey(options.policyKey),
    policy: pickPolicy(options),
    maxCoefficient,
    maxOutputTokens,
    pad,
    idempotencyKey,
    collateral,
    memory: memory ?? (sharedMemory ??= createClientMemory()),
    clock,
    signal,
    connectMs: options.connectMs,
    openChannel: options.openChannel ?? createWebChannel,
    openWebSocket: options.openWebSocket ?? openGlobalWebSocket,
    ...readCredential(options),
  };
}

function readBase(given: string | URL): string {
  const url = new URL(given);
  url.protocol = url.protocol.replace(/^ws/, "http");
  if (!/^https?:$/.test(url.protocol)) {
    throw new TypeError("url must have the scheme http, https, ws or wss");
  }
  // Proxies between client and gateway would write both to their logs.
  if (url.username !== "" || url.password !== "" || url.search !== "") {
    throw new TypeError("url must not contain credentials or a query");
  }
  const path = url.pathname.replace(/\/+$/, "");
  const prefix = path.endsWith(streamPath) ? path.slice(0, -streamPath.length) : path;
  return url.origin + prefix;
}

function readCredential(
  options: ConnectOptions,
): Pick<Settings, "credential" | "isReusable" | "headers"> {
  const { apiKey, ticket, dangerouslyAllowBrowser } = options;
  if ((apiKey === undefined) === (ticket === undefined)) {
    throw new TypeError("exactly one of apiKey and ticket is required");
  }
  if (ticket !== undefined) {
    const isReusable = typeof ticket === "function";
    const credential = async (): Promise<Credential> =>
      credentialInSubprotocol(typeof ticket === "function" ? await ticket() : ticket);
    return { credential, isReusable, headers: undefined };
  }
  // Exactly one of the two is defined.
  const key = apiKey as string;
  const headers = { Authorization: `Bearer ${key}` };
  if (!isBrowser()) {
    const credential = { protocols: [clientSubprotocol], headers };
    return { credential: () => Promise.resolve(credential), isReusable: true, headers };
  }
  if (dangerouslyAllowBrowser !== true) {
    throw new TypeError(
      "an API key in a browser is visible to every user of the page: use tickets instead",
    );
  }
  // Requests to another origin with headers would need a CORS preflight, and these requests work without a key.
  return {
    credential: () => Promise.resolve(credentialInSubprotocol(key)),
    isReusable: true,
    headers: undefined,
  };
}

/** A browser's WebSocket cannot send headers. The server never selects the subprotocol with the secret. */
function credentialInSubprotocol(secret: string): Credential {
  const hidden = `confidential.auth.${toBase64Url(utf8(secret))}`;
  return { protocols: [clientSubprotocol, hidden], headers: undefined };
}

function isBrowser(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}

function readPolicyKey(text: string | undefined): Bytes | undefined {
  if (text === undefined) return undefined;
  const key = readBytes(text, 32);
  if (key === undefined) throw new TypeError("policyKey must be base64url of 32 bytes");
  return key;
}

const policyMembers = [
  "imageHashes",
  "mrseam",
  "advisories",
  "minTcbEvaluation",
  "maxCollateralAgeMs",
  "platforms",
  "sevSnp",
  "allowSimulated",
  "simulatedRoots",
  "treatSimulatedAsVerified",
] as const satisfies readonly (keyof VerificationPolicy)[];

/** An undefined member is left out, so that it does not override the policy document. */
function pickPolicy(options: ConnectOptions): Partial<VerificationPolicy> {
  const given = policyMembers.map((name) => [name, options[name]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

function isNonEmptyString(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
