/** What a caller of `connect` says, and what becomes of it. */
import { clientSubprotocol } from "../protocol/hello.ts";
import type { Role } from "../protocol/hello.ts";
import { readBytes, toBase64Url, utf8 } from "../protocol/layout.ts";
import { defaultPad, pads } from "../protocol/limits.ts";
import type { Pad } from "../protocol/limits.ts";
import { isCount } from "../protocol/strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import type { TdxCollateral } from "../verify/tdx-collateral.ts";
import { wallClock } from "./clock.ts";
import type { ClientClock } from "./clock.ts";
import { createClientMemory } from "./memory.ts";
import type { ClientMemory } from "./memory.ts";

/**
 * The members of `VerificationPolicy` go before those of the policy document. Without `imageHashes` and without
 * `policyKey` no hardware evidence is accepted: nothing would say what may run there.
 */
export interface ConnectOptions extends Partial<VerificationPolicy> {
  /** The gateway: `https://host`, or the URL of its stream; ws and wss will do as well. */
  readonly url: string | URL;
  /** For servers. In a browser it needs `dangerouslyAllowBrowser`, since whoever opens the page can read it. */
  readonly apiKey?: string;
  /** From `POST /v1/confidential/tickets`, for one connection; or a function that fetches one. */
  readonly ticket?: string | (() => Promise<string>);
  readonly network: string;
  readonly model: string;
  /** The policy document's unless given; without either `worker`. The two may not differ. */
  readonly termination?: Role;
  /** base64url of 32 bytes: the key of the operator's policy document, pinned. */
  readonly policyKey?: string;
  /** The highest price coefficient that is accepted; 1000 is a factor of 1. */
  readonly maxCoefficient?: number;
  /** The cap of completion tokens of each request, which is what is reserved; 4096 unless given. */
  readonly maxOutputTokens?: number;
  /** What frames are padded to, in bytes: 256 unless given. */
  readonly pad?: Pad;
  /** One and the same for attempts of which only one shall be billed. */
  readonly idempotencyKey?: string;
  readonly dangerouslyAllowBrowser?: boolean;
  /** TDX: for evidence that comes without. Signed by Intel, so it may come from anywhere. */
  readonly collateral?: TdxCollateral;
  /** All sessions of the process share one unless given. */
  readonly memory?: ClientMemory;
  readonly clock?: ClientClock;
  /** Ends the handshake; not the session afterwards. */
  readonly signal?: AbortSignal;
}

/** How a connection says whose it is. */
export interface Credential {
  readonly protocols: string[];
  readonly headers: Record<string, string> | undefined;
}

/** The options, checked and complete. */
export interface Settings {
  /** Of HTTP, without a slash at the end. */
  readonly base: string;
  readonly streamUrl: string;
  /** What keysets and evidence are remembered under. */
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
  /** A credential for the next connection. */
  credential(): Promise<Credential>;
  /** Whether `credential` can be asked for another connection. */
  readonly isReusable: boolean;
  /** For HTTP beside the stream, of a server; a ticket is good for the stream alone. */
  readonly headers: Record<string, string> | undefined;
}

const streamPath = "/v1/confidential/stream";
const defaultMaxOutputTokens = 4096;
let sharedMemory: ClientMemory | undefined;

/** Throws TypeError for what no session can come of: that is the caller's mistake. */
export function readOptions(options: ConnectOptions): Settings {
  const { network, model, termination, maxCoefficient, pad = defaultPad, memory } = options;
  const { maxOutputTokens = defaultMaxOutputTokens, clock = wallClock } = options;
  const base = readBase(options.url);
  if (!isName(network)) throw new TypeError("network is missing");
  if (!isName(model)) throw new TypeError("model is missing");
  if (!isCount(maxOutputTokens) || maxOutputTokens === 0) {
    throw new TypeError("maxOutputTokens must be a whole number above 0");
  }
  if (maxCoefficient !== undefined && !isCount(maxCoefficient)) {
    throw new TypeError("maxCoefficient must be a whole number");
  }
  if (!pads.includes(pad)) throw new TypeError(`pad must be one of ${pads.join(", ")}`);
  if (termination !== undefined && termination !== "worker" && termination !== "gateway") {
    throw new TypeError("termination must be worker or gateway");
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
    ...readCredential(options),
  };
}

function readBase(given: string | URL): string {
  const url = new URL(given);
  url.protocol = url.protocol.replace(/^ws/, "http");
  if (!/^https?:$/.test(url.protocol)) throw new TypeError("url must be of http or ws");
  // Both would be written into logs on the way.
  if (url.username !== "" || url.password !== "" || url.search !== "") {
    throw new TypeError("url must hold no credentials and no query");
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
    throw new TypeError("one of apiKey and ticket is needed");
  }
  if (ticket !== undefined) {
    const isReusable = typeof ticket === "function";
    const credential = async (): Promise<Credential> =>
      inProtocol(typeof ticket === "function" ? await ticket() : ticket);
    return { credential, isReusable, headers: undefined };
  }
  // One of them is given.
  const key = apiKey as string;
  const headers = { Authorization: `Bearer ${key}` };
  if (!isBrowser()) {
    const credential = { protocols: [clientSubprotocol], headers };
    return { credential: () => Promise.resolve(credential), isReusable: true, headers };
  }
  if (dangerouslyAllowBrowser !== true) {
    throw new TypeError("an API key in a browser is open to all who use it: use tickets");
  }
  // To another origin they would have to be asked for first, and need not be sent.
  return {
    credential: () => Promise.resolve(inProtocol(key)),
    isReusable: true,
    headers: undefined,
  };
}

/** Where a browser can put it, whose WebSocket sends no headers. The server never answers with it. */
function inProtocol(secret: string): Credential {
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

function pickPolicy(options: ConnectOptions): Partial<VerificationPolicy> {
  const { imageHashes, mrseam, advisories, minTcbEvaluation, maxCollateralAgeMs } = options;
  const { platforms, sevSnp, allowSimulated, simulatedRoots, treatSimulatedAsVerified } = options;
  const policy = {
    imageHashes,
    mrseam,
    advisories,
    minTcbEvaluation,
    maxCollateralAgeMs,
    platforms,
    sevSnp,
    allowSimulated,
    simulatedRoots,
    treatSimulatedAsVerified,
  };
  // What was not given must not hide the policy document's.
  return Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== undefined));
}

function isName(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
