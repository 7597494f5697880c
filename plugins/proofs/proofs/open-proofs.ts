/** Opens what the entries of `upstreams` ask for: checks of the finalized heads, and proved reads. */
import type { Host, ServiceHooks } from "sluice-gateway/plugin";
import type { Prover, Proofs } from "sluice-gateway/services";
import { Headers } from "../reads/headers.ts";
import { ProvedCall } from "../reads/proved-call.ts";
import { HeadWatch } from "./head-watch.ts";
import { headNode } from "./ledger-node.ts";
import { modes, type Mode, type Options } from "./options.ts";

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
    const nodes = host.use("ledger").pool(upstream)?.nodes.map(headNode);
    if (nodes === undefined) continue;
    const watch = checkpoint && new HeadWatch(upstream, checkpoint, nodes, host);
    if (watch !== undefined) watches.push(watch);
    const count = (outcome: string): void => counted.with({ upstream, outcome }).add(1);
    const headers = new Headers();
    provers.set(upstream, {
      prove({ wanted, ...call }) {
        const mode = modeOf(ownMode, wanted);
        if (mode === "off") return undefined;
        return new ProvedCall({ ...call, mode, nodes, headers, chain: watch?.chain, count });
      },
    });
  }
  return {
    service: { prover: (upstream) => provers.get(upstream) },
    async initialized() {
      await Promise.all(watches.map(({ first }) => first));
    },
    backends: () => watches.map((watch) => watch.status()),
  };
}

/** A client can ask for more than the upstream requires, but not for less. Undefined if `wanted` is no mode. */
function modeOf(required: Mode, wanted: string | undefined): Mode | undefined {
  if (wanted === undefined) return required;
  const mode = modes.find((each) => each === wanted);
  return mode !== undefined && required === "require" ? required : mode;
}
