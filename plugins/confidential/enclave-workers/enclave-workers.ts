import type { Host, ServiceContext } from "sluice-gateway/plugin";
import type { OpenNetwork } from "sluice-gateway/services";
import type { AttestedUpstream } from "../confidential-relay/open-enclave.ts";
import type { Fault } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import { createEnclaveState, type EnclaveState } from "./enclave-state.ts";
import { openStream } from "./open-stream.ts";
import { evidencePolicies, type Options } from "./options.ts";
import { policyOf } from "./policy.ts";
import { EnclaveRoute } from "./route.ts";

export interface EnclaveWorkers {
  /** Evidence policies of the networks of kind `enclave`, by name of the network. */
  readonly policies: ReadonlyMap<string, VerificationPolicy>;
  /** The state about enclaves, which outlives a reload. */
  readonly state: EnclaveState;
  /** Opens a session with a worker of the network. `helloBytes`: the `hello` frame as received. */
  openStream(
    network: OpenNetwork,
    helloBytes: Uint8Array,
    hello: Hello,
  ): Promise<AttestedUpstream | Fault>;
}

export function openEnclaveWorkers(
  options: Options,
  host: Host,
  { keep }: ServiceContext,
): EnclaveWorkers {
  const { clock, log } = host;
  const policies = evidencePolicies(options);
  const state = keep("state", createEnclaveState, () => undefined);
  host.use("networks").addKind("enclave", {
    workerProtocols: ["http:", "https:", "ws:", "wss:"],
    statusUrl({ url }) {
      // Without a status document of its own, the network is the single worker at its URL.
      const status = new URL("/status", url);
      status.protocol = status.protocol.replace("ws", "http");
      return status.href;
    },
    open(config, changed) {
      const policy = policies.get(config.name);
      // Both services read the same section, so every network of this kind has a policy.
      if (policy === undefined) throw new TypeError(`${config.name} has no evidence policy`);
      const policyFor = policyOf(policy);
      const deps = { ...state, clock, log, changed };
      return {
        routeTo: (listed) => new EnclaveRoute(config, listed, policyFor, deps),
        // Sessions are closed by their callers.
        close: () => Promise.resolve(),
      };
    },
  });
  return { policies, state, openStream };
}
