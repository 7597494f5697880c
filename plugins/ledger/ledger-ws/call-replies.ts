/**
 * The answers to the calls that need the connection, and the gateway's JSON-RPC errors that exist only over WebSocket
 * (decisions.md section 14), as JSON text.
 */
import type { CallReporter } from "sluice-gateway/plugin";
import type { CuRefusal, MeterUnavailable, SubscriptionEndReason } from "sluice-gateway/services";
import { tooLargeError } from "../ledger/feed/storage-subscriptions.ts";

/** A JSON-RPC call. `id` and `params` are JSON text; `params` is empty if there are none. */
export interface RpcCall {
  readonly id: string;
  readonly method: string;
  readonly params: string;
}

/** The error of a call or subscription, as JSON text, with its code for logs and metrics. */
export type Refusal = Pick<CallRefusal, "error"> & { readonly code: string };

export class CallReplies {
  readonly send: (message: string) => void;
  readonly #calls: CallReporter;

  constructor(send: (message: string) => void, calls: CallReporter) {
    this.send = send;
    this.#calls = calls;
  }

  /** `result`: JSON text. `name`: name of the method in logs and metrics, if it differs from the client's. */
  answer(call: RpcCall, result: string, name = call.method): void {
    this.report(name);
    this.send(`{"jsonrpc":"2.0","id":${call.id},"result":${result}}`);
  }

  refuse(call: RpcCall, { code, error }: Refusal, name = call.method): void {
    this.report(name, code);
    this.send(`{"jsonrpc":"2.0","id":${call.id},"error":${error}}`);
  }

  report(name: string, code?: string): void {
    this.#calls.called({ kind: "node", name, isListed: true, code });
  }
}

const codes = {
  GATEWAY_UNAUTHORIZED: -32001,
  GATEWAY_SERVICE_UNAVAILABLE: -32603,
  GATEWAY_CU_LIMIT_EXCEEDED: -32005,
  GATEWAY_RATE_LIMITED: -32029,
  GATEWAY_INTERNAL_ERROR: -32603,
} as const;

/** The `GATEWAY_*` code of a refused call, and its error as JSON text. */
export interface CallRefusal {
  readonly code: keyof typeof codes;
  readonly error: string;
}

export const tooManyRequests = refusalOf("GATEWAY_RATE_LIMITED", "Too Many Requests");
/** The error for a message if a step of the route has failed, which is a bug. */
export const stepFailure = refusalOf("GATEWAY_INTERNAL_ERROR", "Internal Error");
/** The key is no longer valid. The connection closes, so the client does not get this error. */
export const unauthorized = refusalOf("GATEWAY_UNAUTHORIZED", "unauthorized");
/** The limit that refuses a further subscription: of the connection, of the key on all its connections, or of the nodes. */
export type FullQuota = "connection" | "key" | "nodes";

const quotaNames: Readonly<Record<FullQuota, string>> = {
  connection: "on the connection",
  key: "of the key",
  nodes: "of all clients at the nodes",
};

/** The code is the one of jsonrpsee, the server of Substrate nodes. */
export function tooManySubscriptions(full: FullQuota): CallRefusal {
  const error = `{"code":-32006,"message":"Too many subscriptions ${quotaNames[full]}"}`;
  return { code: "GATEWAY_RATE_LIMITED", error };
}

/** The error of all calls while keys cannot be checked or charges cannot be written. */
export const unavailable = refusalOf("GATEWAY_SERVICE_UNAVAILABLE", "Internal Error");

export function chargeRefusal(refusal: CuRefusal | MeterUnavailable): CallRefusal {
  if (refusal.kind === "unavailable") return unavailable;
  const { window, usedMilliCu, limitMilliCu } = refusal;
  return refusalOf("GATEWAY_CU_LIMIT_EXCEEDED", "credit limit exceeded", {
    ...(window !== undefined && { window }),
    used_cu_milli: usedMilliCu,
    limit_cu_milli: limitMilliCu,
  });
}

/** Returns the error of a follow above a limit, as the JSON-RPC interface specification defines its code. */
export function tooManyFollows(full: FullQuota): string {
  return `{"code":-32800,"message":"Too many follows ${quotaNames[full]}"}`;
}

export const followErrors = {
  invalidBlock: '{"code":-32801,"message":"The block is not pinned"}',
  withoutRuntime: '{"code":-32802,"message":"The follow was opened without runtime"}',
  notWaiting: '{"code":-32803,"message":"The operation does not wait for continue"}',
  duplicateHashes: '{"code":-32804,"message":"A hash is given twice"}',
} as const;

export function invalidParams(reason: string): string {
  return JSON.stringify({ code: -32602, message: `Invalid params: ${reason}` });
}

function refusalOf(code: CallRefusal["code"], message: string, details?: object): CallRefusal {
  const data = { errorCode: code, ...(details !== undefined && { details }) };
  return { code, error: JSON.stringify({ code: codes[code], message, data }) };
}

export const internalError = '{"code":-32603,"message":"Internal Error"}';

export const endErrors: Readonly<Record<SubscriptionEndReason, Refusal>> = {
  tooLarge: { code: "RESPONSE_TOO_BIG", error: tooLargeError },
  clientTooSlow: {
    code: "CLIENT_TOO_SLOW",
    error: '{"code":-32603,"message":"The client has not read for too long"}',
  },
};

/** The codes, in logs and metrics, of calls that no node has answered with a result. */
export const upstreamErrorCodes = { error: "NODE_ERROR", failed: "UPSTREAM_ERROR" } as const;
