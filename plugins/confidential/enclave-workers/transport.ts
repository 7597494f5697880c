/** The transport of networks whose workers decrypt the encrypted stream in their own enclaves. */
import type { NetworkConfig } from "../../../src/config/config.ts";
import type { Transport } from "../../inference/networks/worker-route.ts";
import type { ListedWorker } from "../../inference/networks/status-document.ts";
import { policyOf, type PolicyFor } from "./policy.ts";
import type { EnclaveDeps } from "./enclave-state.ts";
import { EnclaveRoute } from "./route.ts";

export class EnclaveTransport implements Transport {
  readonly #config: NetworkConfig;
  readonly #policyFor: PolicyFor;
  readonly #deps: EnclaveDeps;

  constructor(config: NetworkConfig, deps: EnclaveDeps) {
    // The configuration always contains it for networks of this kind.
    if (config.evidence === undefined) throw new TypeError(`${config.name} has no evidence policy`);
    this.#config = config;
    this.#policyFor = policyOf(config.evidence);
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
