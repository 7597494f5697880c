/** Opens what the entries of `upstreams` ask for: checks of the finalized heads, and proved reads. */
import type { Host, ServiceHooks } from "sluice-gateway/plugin";
import type { Proofs } from "sluice-gateway/services";
import { ProvedCall } from "../reads/proved-call.ts";
import { HeadWatch } from "./head-watch.ts";
import { headNode } from "./ledger-node.ts";
import type { HeadNode } from "./node.ts";
import { modes, type Mode, type Options } from "./options.ts";

interface ProvedUpstream {
  readonly mode: Mode;
  readonly nodes: readonly HeadNode[];
  /** Undefined without a checkpoint. */
  readonly watch: HeadWatch | undefined;
}

export function openProofs({ upstreams }: Options, host: Host): ServiceHooks<Proofs> {
  const opened = new Map<string, ProvedUpstream>();
  for (const [name, entry] of Object.entries(upstreams)) {
    if (entry === null) continue;
    const { checkpoint, proof: mode } = entry;
    if (checkpoint === undefined && mode === "off") continue;
    const nodes = host.use("ledger").pool(name)?.nodes.map(headNode);
    if (nodes === undefined) continue;
    const watch = checkpoint && new HeadWatch(name, checkpoint, nodes, host);
    opened.set(name, { mode, nodes, watch });
  }
  const watches = [...opened.values()].flatMap(({ watch }) => watch ?? []);
  const counted = host.metrics.counter(
    "sluice_proofs_total",
    "Calls for whose answers a proof was wanted, by what was proved: `finalized`, `included` or `none`.",
    ["upstream", "outcome"],
  );
  return {
    service: {
      prove({ upstream, ledger, rpc, body, wanted }) {
        const found = opened.get(upstream);
        if (found === undefined) return undefined;
        const { nodes, watch } = found;
        const mode = modeOf(found.mode, wanted);
        if (mode === "off") return undefined;
        const count = (outcome: string): void => counted.with({ upstream, outcome }).add(1);
        return new ProvedCall({ mode, ledger, rpc, body, nodes, chain: watch?.chain, count });
      },
    },
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
