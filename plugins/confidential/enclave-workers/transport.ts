/** The transport of networks whose workers decrypt the encrypted stream in their own enclaves. */
import type { ListedWorker, NetworkConfig, Transport } from "sluice-gateway/services";
import type { EvidencePolicyConfig } from "./options.ts";
import { policyOf, type PolicyFor } from "./policy.ts";
import type { EnclaveDeps } from "./enclave-state.ts";
import { EnclaveRoute } from "./route.ts";

export class EnclaveTransport implements Transport {
  readonly #config: NetworkConfig;
  readonly #policyFor: PolicyFor;
  readonly #deps: EnclaveDeps;

  constructor(config: NetworkConfig, policy: EvidencePolicyConfig, deps: EnclaveDeps) {
    this.#config = config;
    this.#policyFor = policyOf(policy);
    this.#deps = deps;
  }

  routeTo(listed: ListedWorker): EnclaveRoute {
    return new EnclaveRoute(this.#config, listed, this.#policyFor, this.#deps);
  }

  /** Sessions are closed by their callers. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}
