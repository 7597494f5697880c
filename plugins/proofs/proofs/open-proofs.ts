/** Opens what the entries of `upstreams` ask for: checks of the finalized heads, and proved reads. */
import type { Host, ServiceHooks } from "sluice-gateway/plugin";
import type { Prover, Proofs } from "sluice-gateway/services";
import { Headers } from "../reads/headers.ts";
import { LyingNodes } from "../reads/lying-nodes.ts";
import { createProver } from "../reads/prover.ts";
import { loadBlake2 } from "../trie/fast-blake2.ts";
import { KeptNodes } from "../trie/kept-nodes.ts";
import { HeadWatch } from "./head-watch.ts";
import { headNode } from "./ledger-node.ts";
import type { Options } from "./options.ts";

/** Maximum size of the nodes of tries that are kept per upstream. */
const keptBytes = 32 * 1_048_576;

export function openProofs({ upstreams }: Options, host: Host): ServiceHooks<Proofs> {
  const provers = new Map<string, Prover>();
  const watches: HeadWatch[] = [];
  const counted = host.metrics.counter(
    "sluice_proofs_total",
    "Calls for whose answers a proof was wanted, by what was proved: `finalized`, `included` or `none`.",
    ["upstream", "outcome"],
  );
  for (const [upstream, entry] of Object.entries(upstreams)) {
    if (entry === null) continue;
    const { checkpoint, proof: ownMode } = entry;
    if (checkpoint === undefined && ownMode === "off") continue;
    const ledger = host.use("ledger").pool(upstream);
    if (ledger === undefined) continue;
    const nodes = ledger.nodes.map(headNode);
    const liars = new LyingNodes(upstream, ledger.nodes, host);
    const watch = checkpoint && new HeadWatch(upstream, checkpoint, nodes, liars, host);
    if (watch !== undefined) watches.push(watch);
    const count = (outcome: string): void => counted.with({ upstream, outcome }).add(1);
    const headers = new Headers();
    const kept = new KeptNodes(keptBytes, (onRefused) =>
      host.memory.hold(`proofs of ${upstream}`, "result", onRefused),
    );
    const deps = { kept, ledger, liars, nodes, headers, chain: watch?.chain, count };
    provers.set(upstream, createProver(deps, ownMode));
  }
  return {
    service: { prover: (upstream) => provers.get(upstream) },
    async initialized() {
      await Promise.all([loadBlake2(), ...watches.map(({ first }) => first)]);
    },
    backends: () => watches.map((watch) => watch.status()),
  };
}
