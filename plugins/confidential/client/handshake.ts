/**
 * Opens a session over one connection. All checks run in order, and nothing but `hello` is sent until the last one has
 * passed (confidential-stream.md, 1.2 to 1.4).
 */
import { clientSubprotocol, writeHello, type Hello } from "../protocol/hello.ts";
import type { Ephemeral } from "../protocol/suite.ts";
import type { Checklist } from "../verify/checklist.ts";
import { attest } from "./attest.ts";
import { createHandshakeChecks } from "./handshake-attempt.ts";
import type { HandshakeAttempt, HandshakeCheck, OpenSession } from "./handshake-attempt.ts";
import { closeCodeOf, ConfidentialError } from "./failure.ts";
import type { Settings } from "./options.ts";
import { openSocket, type SocketRequest, type StreamSocket } from "./socket.ts";
import { webSuite } from "./web-crypto.ts";

/**
 * `unknownKeyset`: a cached quote was requested, but the keyset has never presented a quote that was created for this
 * client. Rejects with a ConfidentialError, or with the signal's reason.
 */
export async function openSession(
  attempt: HandshakeAttempt,
): Promise<OpenSession | "unknownKeyset"> {
  const { settings, signal } = attempt;
  const checks = createHandshakeChecks();
  recordPolicyCheck(checks, settings);
  const ephemeral = await webSuite.createEphemeral();
  const hello = createHello(attempt, ephemeral);
  const helloBytes = writeHello(hello);
  const socket = await connectSocket(settings, signal, checks);
  const abort = (): void => socket.close(closeCodeOf("TIMEOUT"));
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    return await attest({ ...attempt, checks, hello, helloBytes, socket }, ephemeral);
  } catch (error) {
    socket.close(
      closeCodeOf(error instanceof ConfidentialError ? error.code : "CONNECTION_CLOSED"),
    );
    if (signal.aborted) throw abortReason(signal, checks);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function recordPolicyCheck(checks: Checklist<HandshakeCheck>, { policyKey }: Settings): void {
  if (policyKey === undefined) checks.skip("policy", "no policy key is pinned");
  else checks.record("policy", undefined);
}

function createHello(
  { settings, policy, freshness }: HandshakeAttempt,
  ephemeral: Ephemeral,
): Hello {
  const { network, model, maxOutputTokens, maxCoefficient, pad, idempotencyKey } = settings;
  const known = freshness === "cached" ? settings.memory.evidence.digests(settings.endpoint) : [];
  return {
    network,
    model,
    maxOutputTokens,
    maxCoefficient,
    termination: policy.termination,
    epk: ephemeral.publicKey,
    nonce: crypto.getRandomValues(new Uint8Array(32)),
    pad,
    evidence: known.length > 0 ? "known" : "full",
    known,
    freshness,
    idempotencyKey,
  };
}

async function connectSocket(
  settings: Settings,
  signal: AbortSignal,
  checks: Checklist<HandshakeCheck>,
): Promise<StreamSocket> {
  try {
    const { protocols, headers } = await settings.credential();
    const request = { url: settings.streamUrl, protocols, headers, signal };
    const socket = await openInTime(settings, request);
    if (socket.protocol !== clientSubprotocol) {
      socket.close(closeCodeOf("SUITE_UNSUPPORTED"));
      const message = `the server did not select the subprotocol ${clientSubprotocol}`;
      throw new ConfidentialError("SUITE_UNSUPPORTED", message);
    }
    checks.record("connection", undefined);
    return socket;
  } catch (error) {
    if (signal.aborted) throw abortReason(signal, checks);
    if (!(error instanceof ConfidentialError)) throw error;
    checks.record("connection", error.message);
    const { code, message, retryAfterSeconds } = error;
    throw new ConfidentialError(code, message, { checks: checks.list(), retryAfterSeconds });
  }
}

async function openInTime(
  { clock, connectMs, openWebSocket }: Settings,
  request: SocketRequest,
): Promise<StreamSocket> {
  if (connectMs === undefined) return openSocket(request, openWebSocket);
  const late = new AbortController();
  const why = `the connection was not open after ${connectMs} ms`;
  const stop = clock.after(connectMs, () =>
    late.abort(new ConfidentialError("CONNECTION_FAILED", why)),
  );
  try {
    const signal = AbortSignal.any([request.signal, late.signal]);
    return await openSocket({ ...request, signal }, openWebSocket);
  } finally {
    stop();
  }
}

/** The error of the handshake's own timeout lists the checks so far. Any other reason is the caller's. */
function abortReason({ reason }: AbortSignal, checks: Checklist<HandshakeCheck>): unknown {
  if (!(reason instanceof ConfidentialError)) return reason;
  return new ConfidentialError(reason.code, reason.message, { checks: checks.list() });
}
