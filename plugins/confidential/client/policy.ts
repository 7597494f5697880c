/** The policy of a session: the operator's document, signed by the pinned key, overridden by the caller's options. */
import type { Role } from "../protocol/hello.ts";
import { toBase64Url } from "../protocol/encoding.ts";
import { policyPath, readPolicyDocument, type NetworkPolicy } from "../protocol/policy-document.ts";
import { snpPolicyOf } from "../protocol/sev-snp-policy.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import { fetchJson } from "./fetch-json.ts";
import type { Settings } from "./options.ts";
import { webSuite } from "./web-crypto.ts";

export interface SessionPolicy {
  readonly termination: Role;
  policyFor(teeType: unknown): VerificationPolicy;
}

const maxDocumentBytes = 524_288;

/** Returns the policy, or a text with the reason why the policy document is refused. */
export async function readSessionPolicy(
  settings: Settings,
  signal: AbortSignal,
): Promise<SessionPolicy | string> {
  const { policyKey, termination } = settings;
  if (policyKey === undefined) return createPolicy(settings, termination ?? "worker", undefined);
  const network = await readNetworkPolicy(settings, policyKey, signal);
  if (typeof network === "string") return network;
  if (termination !== undefined && termination !== network.termination) {
    return `expected termination ${termination}, but the policy document has ${network.termination}`;
  }
  return createPolicy(settings, network.termination, network);
}

async function readNetworkPolicy(
  { base, network: name, memory, clock, headers }: Settings,
  key: NonNullable<Settings["policyKey"]>,
  signal: AbortSignal,
): Promise<NetworkPolicy | string> {
  // The document is public. The key is sent because rate limits are then per key, not per address.
  const request = { signal, ...(headers && { headers }) };
  const document = await fetchJson(base + policyPath, maxDocumentBytes, request);
  if (document === undefined) return "the policy document cannot be fetched";
  const gateway = `${base} ${toBase64Url(key)}`;
  const lowestSerial = await memory.serials.highest(gateway);
  const policy = await readPolicyDocument(webSuite, document, {
    key,
    now: clock.now(),
    ...(lowestSerial !== undefined && { lowestSerial }),
  });
  if (typeof policy === "string") return policy;
  await memory.serials.record(gateway, policy.serial);
  const network = Object.hasOwn(policy.networks, name) ? policy.networks[name] : undefined;
  return network ?? `the policy document does not list the network ${name}`;
}

function createPolicy(
  { policy, policyKey }: Settings,
  termination: Role,
  network: NetworkPolicy | undefined,
): SessionPolicy {
  const enclave = network?.[termination];
  return {
    termination,
    policyFor(teeType) {
      // Simulated evidence proves nothing, whatever image it names, so any is accepted. Hardware must run a known
      // image.
      const acceptsAnyImage = policyKey === undefined && teeType === "simulated";
      return {
        imageHashes: enclave?.image_hashes ?? (acceptsAnyImage ? "any" : []),
        ...(enclave && {
          mrseam: enclave.mrseam,
          advisories: enclave.advisories,
          ...(enclave.min_tcb_evaluation !== undefined && {
            minTcbEvaluation: enclave.min_tcb_evaluation,
          }),
        }),
        ...policy,
        // Merged per member: a caller that sets a privilege level still wants the operator's minimum TCB.
        sevSnp: { ...(enclave?.sev_snp && snpPolicyOf(enclave.sev_snp)), ...policy.sevSnp },
      };
    },
  };
}
