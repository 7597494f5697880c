import type { Host, ServiceHooks } from "sluice-gateway/plugin";
import type { Prover, Proofs } from "sluice-gateway/services";
import { Headers } from "../reads/headers.ts";
import { WrongNodes } from "../reads/wrong-nodes.ts";
import { createProver } from "../reads/prover.ts";
import { loadBlake2 } from "../trie/fast-blake2.ts";
import { KeptNodes } from "../trie/kept-nodes.ts";
import { FinalizedChain } from "./finalized-chain.ts";
import { HeadWatch } from "./head-watch.ts";
import { headNode } from "./ledger-node.ts";
import type { Options, RelayOptions } from "./options.ts";
import { RelayedChain } from "./relayed-chain.ts";

/** Maximum size of the nodes of tries that are kept per upstream. */
const keptBytes = 32 * 1_048_576;

export function openProofs({ upstreams }: Options, host: Host): ServiceHooks<Proofs> {
  const provers = new Map<string, Prover>();
  const watches = new Map<string, HeadWatch>();
  const relayed = (relay: RelayOptions | undefined): RelayedChain | undefined => {
    const watch = relay && watches.get(relay.upstream);
    return watch && new RelayedChain(watch, relay.parachain);
  };
  const counted = host.metrics.counter(
    "sluice_proofs_total",
    "Calls for whose answers a proof was wanted, by what was proved: `finalized`, `included` or `none`.",
    ["upstream", "outcome"],
  );
  // Parachains come after their relay chains.
  const entries = Object.entries(upstreams).toSorted(
    ([, a], [, b]) => Number(a?.relay !== undefined) - Number(b?.relay !== undefined),
  );
  for (const [upstream, entry] of entries) {
    if (entry === null) continue;
    const { checkpoint, relay, proof: ownMode } = entry;
    if ((checkpoint ?? relay) === undefined && ownMode === "off") continue;
    const ledger = host.use("ledger").pool(upstream);
    if (ledger === undefined) continue;
    const nodes = ledger.nodes.map(headNode);
    const wrongNodes = new WrongNodes(upstream, ledger.nodes, host);
    const chain = checkpoint === undefined ? relayed(relay) : new FinalizedChain(checkpoint);
    if (chain !== undefined)
      watches.set(upstream, new HeadWatch(upstream, chain, nodes, wrongNodes, host));
    const count = (outcome: string): void => counted.with({ upstream, outcome }).add(1);
    const headers = new Headers();
    const kept = new KeptNodes(keptBytes, (onRefused) =>
      host.memory.hold(`proofs of ${upstream}`, "result", onRefused),
    );
    const deps = { kept, ledger, wrongNodes, nodes, headers, chain, count };
    provers.set(upstream, createProver(deps, ownMode));
  }
  return {
    service: { prover: (upstream) => provers.get(upstream) },
    async initialized() {
      await Promise.all([loadBlake2(), ...Array.from(watches.values(), ({ first }) => first)]);
    },
    backends: () => Array.from(watches.values(), (watch) => watch.status()),
    stop: () => watches.forEach((watch) => watch.close()),
  };
}
