/** Finds the enclave that serves a `hello`, and claims the session id that the enclave chose. */
import type { Log } from "sluice-gateway/plugin";
import type { StreamCustomer } from "sluice-gateway/services";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { readHello, type Hello } from "../protocol/hello.ts";
import { toBase64Url } from "../protocol/encoding.ts";
import type { AttestationFrame } from "../protocol/text-frames.ts";
import type { UpstreamSession, AttestedUpstream } from "./open-enclave.ts";
import type { SessionIds } from "./stream-store.ts";

export interface AcceptHelloDeps {
  readonly log: Log;
  readonly sessionIds: SessionIds;
  open(
    helloBytes: Uint8Array,
    hello: Hello,
    customer: StreamCustomer,
  ): Promise<AttestedUpstream | Fault>;
}

export interface AcceptedSession {
  readonly hello: Hello;
  /** base64url of 16 bytes. */
  readonly id: string;
  readonly upstream: UpstreamSession;
  readonly attestation: string;
}

/** `bytes`: the text frame as received; the enclave gets the same bytes. */
export async function acceptHello(
  bytes: Uint8Array,
  customer: StreamCustomer,
  deps: AcceptHelloDeps,
): Promise<AcceptedSession | Fault> {
  const hello = readHello(bytes);
  if (isFault(hello)) return hello;
  if (customer.model !== undefined && customer.model !== hello.model) {
    return fault("UNAUTHORIZED", "the ticket is for a different model");
  }
  const opened = await deps.open(bytes, hello, customer);
  if (isFault(opened)) return opened;
  // The evidence is large and sessions can last long, so it is not kept after it has been sent.
  const { attestation, ...upstream } = opened;
  const id = toBase64Url(upstream.attested.core.session);
  const claimed = await claim(id, deps);
  if (claimed === true) {
    return { hello, id, upstream, attestation: attestationText(attestation, upstream) };
  }
  upstream.link.close();
  // It is not the enclave's fault if the id could not be stored.
  upstream.onEnd(claimed);
  return claimed === false
    ? fault("ATTESTATION_UNAVAILABLE", "the enclave reused a session id")
    : fault("ATTESTATION_UNAVAILABLE", "the session id cannot be stored at the moment");
}

/** Undefined if the store cannot be used. */
async function claim(
  id: string,
  { sessionIds, log }: Pick<AcceptHelloDeps, "sessionIds" | "log">,
): Promise<boolean | undefined> {
  try {
    return await sessionIds.claim(id);
  } catch (error) {
    log.error({ err: error }, "cannot store the id of a session");
    return undefined;
  }
}

/** The frame contains `core`, `sig` and the evidence as received, and the gateway's price offer. */
function attestationText(
  { core, sig, evidence, evidenceDigest }: AttestationFrame,
  { attested, price }: UpstreamSession,
): string {
  const { coefficient, pricePerTokenNano, classes } = price.pricing;
  return JSON.stringify({
    type: "attestation",
    core: toBase64Url(core),
    sig: toBase64Url(sig),
    ...(evidence === undefined ? { evidence_digest: evidenceDigest } : { evidence }),
    offer: {
      coefficient,
      pricePerTokenNano,
      classes,
      validUntil: new Date(attested.keyset.notAfter * 1000).toISOString(),
    },
  });
}
