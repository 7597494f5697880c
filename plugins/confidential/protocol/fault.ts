/** The WebSocket close code that follows the error frame (confidential-stream.md, 5). */
export const closeCodes = {
  BAD_FRAME: 4400,
  UNAUTHORIZED: 4401,
  INSUFFICIENT_BALANCE: 4402,
  PRICE_ABOVE_MAX: 4402,
  MODEL_NOT_AVAILABLE: 4404,
  NETWORK_NOT_AVAILABLE: 4404,
  TERMINATION_NOT_AVAILABLE: 4404,
  TIMEOUT: 4408,
  REPLAY: 4409,
  LIMIT_EXCEEDED: 4413,
  SUITE_UNSUPPORTED: 4426,
  RATE_LIMITED: 4429,
  ATTESTATION_UNAVAILABLE: 4495,
  UPSTREAM_FAILED: 1011,
} as const;

export type StreamCode = keyof typeof closeCodes;

/** Close codes that are sent without an error frame. */
export const plainCloseCodes = {
  ok: 1000,
  tooBig: 1009,
  internal: 1011,
  overloaded: 1013,
  forbidden: 4403,
} as const;

/** A failure that ends the session. `message` never contains text from others, so it can be sent to the peer. */
export interface Fault {
  readonly kind: "fault";
  readonly code: StreamCode;
  readonly message: string;
}

export function fault(code: StreamCode, message: string): Fault {
  return { kind: "fault", code, message };
}

export function isFault(value: object | undefined): value is Fault {
  return value !== undefined && "kind" in value && value.kind === "fault";
}

export function isStreamCode(text: unknown): text is StreamCode {
  return typeof text === "string" && Object.hasOwn(closeCodes, text);
}

/** The frame is sent once; then the session closes with `closeCodes[code]`. */
export function errorFrame({ code, message }: Fault): string {
  return JSON.stringify({ type: "error", error: message, code });
}
