/** From a client's `hello` to the enclave that serves it, under a name that no session had before. */
import type { StreamCustomer } from "../../../src/services/confidential.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { readHello, type Hello } from "../protocol/hello.ts";
import { toBase64Url } from "../protocol/encoding.ts";
import type { AttestationFrame } from "../protocol/text-frames.ts";
import type { UpstreamSession, AttestedUpstream } from "./upstream-session.ts";
import type { SessionIds } from "./session-ids.ts";

export interface AcceptHelloDeps {
  readonly names: SessionIds;
  /** Finds who serves a `hello`. */
  open(
    helloBytes: Uint8Array,
    hello: Hello,
    customer: StreamCustomer,
  ): Promise<AttestedUpstream | Fault>;
}

export interface AcceptedSession {
  readonly hello: Hello;
  /** base64url of 16 bytes; to be released when the session is over. */
  readonly name: string;
  readonly serving: UpstreamSession;
  /** The text frame that answers `hello`. */
  readonly attestation: string;
}

/** `bytes`: the text frame as it came, and as it goes on. */
export async function acceptHello(
  bytes: Uint8Array,
  customer: StreamCustomer,
  parts: AcceptHelloDeps,
): Promise<AcceptedSession | Fault> {
  const hello = readHello(bytes);
  if (isFault(hello)) return hello;
  if (customer.model !== undefined && customer.model !== hello.model) {
    return fault("UNAUTHORIZED", "the ticket is for another model");
  }
  const opened = await parts.open(bytes, hello, customer);
  if (isFault(opened)) return opened;
  // Evidence is long and a session may last: it is sent, and not kept.
  const { attestation, ...serving } = opened;
  const name = toBase64Url(serving.attested.core.session);
  if (parts.names.claim(name)) {
    return { hello, name, serving, attestation: attestationText(attestation, serving) };
  }
  serving.link.close();
  serving.ended(false);
  return fault("ATTESTATION_UNAVAILABLE", "the enclave repeats itself");
}

/** `core`, `sig` and evidence as they came, with what the gateway has to say of the price. */
function attestationText(
  { core, sig, evidence: shown, evidenceDigest }: AttestationFrame,
  { attested, price }: UpstreamSession,
): string {
  const { coefficient, pricePerTokenNano } = price.pricing;
  return JSON.stringify({
    type: "attestation",
    core: toBase64Url(core),
    sig: toBase64Url(sig),
    ...(shown === undefined ? { evidence_digest: evidenceDigest } : { evidence: shown }),
    offer: {
      coefficient,
      pricePerTokenNano,
      validUntil: new Date(attested.keyset.notAfter * 1000).toISOString(),
    },
  });
}
