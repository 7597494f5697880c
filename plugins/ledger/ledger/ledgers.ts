import type { BackendStatus, Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Decoder, Ledgers } from "sluice-gateway/services";
import { createDecoder } from "./decode/decoder.ts";
import { openLedger, type LedgerService } from "./open-ledger.ts";
import type { NodeStatus } from "./node-pool.ts";
import { poolConfig, type Options, type PoolConfig } from "./options.ts";
import { Pool } from "./pool/pool.ts";

/** A reload keeps the decoder with the metadata that has been read. */
interface Chain {
  readonly ledger: LedgerService;
  readonly decoder: Decoder;
}

export function openLedgers(
  options: Options,
  host: Host,
  { keep, isDefault }: ServiceContext,
): ServiceHooks<Ledgers> {
  const inUse = new Map<string, Chain>();
  const chainOf = (name: string): Chain | undefined => {
    const config = poolConfig(options, name, host);
    if (config === undefined) return undefined;
    const open = (): Chain => openChain(config, host);
    const chain = keep(JSON.stringify(config), open, ({ ledger }) => ledger.close());
    inUse.set(name, chain);
    return chain;
  };
  return {
    service: {
      pool: (name) => chainOf(name)?.ledger,
      decoder: (name) => chainOf(name)?.decoder,
    },
    async initialized() {
      await Promise.all(Array.from(inUse.values(), ({ ledger }) => ledger.settled));
    },
    backends: () =>
      Array.from(inUse, ([name, { ledger }]) =>
        statusOf(name, ledger, isDefault(`/upstreams/${name}/urls`)),
      ),
  };
}

function openChain(upstream: PoolConfig, host: Host): Chain {
  const { clock, log, metrics, compute, threads } = host;
  const shared = { upstream, clock, log, metrics };
  const ledger = openLedger({ ...shared, pool: new Pool({ ...shared, threads }) });
  return { ledger, decoder: createDecoder({ ledger, compute, clock }) };
}

/** No address is part of the reasons, because /readyz shows them. */
function causeOf(nodes: readonly NodeStatus[]): string {
  const causes = nodes.map(({ exclusionReason, probeFailure }) =>
    probeFailure === undefined ? exclusionReason : `${exclusionReason}: ${probeFailure}`,
  );
  return [...new Set(causes)].join(", ");
}

function statusOf(name: string, ledger: LedgerService, isDefault: boolean): BackendStatus {
  const nodes = ledger.status();
  return {
    kind: "ledger",
    title: `upstream ${name}`,
    ready: ledger.ready ? true : "no usable node",
    cause: causeOf(nodes),
    isDefault,
    details: {
      name,
      ready: ledger.ready,
      nodes: nodes.map((node) => ({
        name: node.node,
        state: node.exclusionReason ?? "usable",
        best: node.best,
        finalized: node.finalized,
        oldest_state: node.oldestState,
        ...node.absence,
      })),
    },
  };
}
