import { randomBytes } from "node:crypto";
import type { Offer } from "sluice-gateway/services";
import type { Channel } from "../protocol/channel.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { answerHello } from "../protocol/handshake.ts";
import type { Hello } from "../protocol/hello.ts";
import { createNodeChannel } from "../protocol/node-channel.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import { writeAttestation } from "../protocol/text-frames.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { EnclaveIdentity, EnclaveKeyset } from "./identity.ts";

export interface EnclaveHandshakeDeps {
  readonly identity: EnclaveIdentity;
  /** Undefined if this enclave does not serve the model. */
  readonly find: (modelId: string) => Offer | undefined;
  /** Price coefficient in thousandths. By default, that of the upstream worker. */
  readonly coefficient?: number;
}

export interface EstablishedSession {
  readonly hello: Hello;
  readonly keyset: EnclaveKeyset;
  readonly channel: Channel;
  readonly id: Bytes;
  readonly th: Bytes;
  /** The text frame with which the enclave answers. */
  readonly attestation: string;
}

export function isServed(offer: Offer | undefined): offer is Offer {
  return offer !== undefined && offer.activeWorkers > 0;
}

export function checkHello(hello: Hello, deps: EnclaveHandshakeDeps): Fault | undefined {
  const { identity, find, coefficient } = deps;
  if (hello.network !== identity.net) {
    return fault("NETWORK_NOT_AVAILABLE", "this enclave serves a different network");
  }
  if (hello.termination !== identity.role) {
    return fault("TERMINATION_NOT_AVAILABLE", "this enclave has a different role");
  }
  if (!isServed(find(hello.model))) {
    return fault("MODEL_NOT_AVAILABLE", "the model is currently not served here");
  }
  const isTooExpensive = (coefficient ?? 0) > (hello.maxCoefficient ?? Infinity);
  return isTooExpensive
    ? fault("PRICE_ABOVE_MAX", "the coefficient is above max_coefficient")
    : undefined;
}

/** `helloBytes`: the frame as received. `signal`: aborted when the peer has disconnected. */
export async function establish(
  helloBytes: Uint8Array,
  hello: Hello,
  { identity }: EnclaveHandshakeDeps,
  signal: AbortSignal,
): Promise<EstablishedSession | Fault> {
  const keyset = identity.current();
  if (isFault(keyset)) return keyset;
  const evidence = await evidenceFor(hello, keyset, identity, signal);
  if (isFault(evidence)) return evidence;
  const id = new Uint8Array(randomBytes(16));
  const answer = await answerHello(nodeSuite, helloBytes, hello, {
    keyset: keyset.keyset,
    signer: keyset.hs,
    session: id,
  });
  if (isFault(answer)) return answer;
  const { keys, th, core, sig } = answer;
  const channel = createNodeChannel({ end: "enclave", keys, th, pad: hello.pad });
  return { hello, keyset, channel, id, th, attestation: writeAttestation(core, sig, evidence) };
}

async function evidenceFor(
  hello: Hello,
  keyset: EnclaveKeyset,
  identity: EnclaveIdentity,
  signal: AbortSignal,
): Promise<Parameters<typeof writeAttestation>[2] | Fault> {
  if (hello.freshness === "quote") {
    const made = await identity.quoteFor(keyset, hello.nonce, signal);
    return isFault(made) ? made : { evidence: made };
  }
  const { evidence, evidenceDigest } = keyset;
  const isKnown = hello.evidence === "known" && hello.known.includes(evidenceDigest);
  return isKnown ? { evidence_digest: evidenceDigest } : { evidence };
}
