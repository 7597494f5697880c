/** Node pools without nodes, with which `sluice check` starts the plugins that use them. */
import type { Host } from "sluice-gateway/plugin";
import type { Ledger, Ledgers } from "sluice-gateway/services";
import { ChainDecoder } from "./decode/decoder.ts";
import { poolConfig, type Options, type PoolConfig } from "./options.ts";
import {
  createArchiveMethods,
  createFeedMethods,
  createFollowMethods,
  createSubmissionMethods,
} from "./websocket-methods.ts";
import { createWhitelist } from "./whitelist.ts";

export function unconnectedLedgers(options: Options, host: Host): Ledgers {
  const pool = (name: string): Ledger | undefined => {
    const config = poolConfig(options, name, host);
    return config && unconnectedPool(config);
  };
  return {
    pool,
    decoder(name) {
      const ledger = pool(name);
      return ledger && new ChainDecoder({ ledger, compute: host.compute, clock: host.clock });
    },
  };
}

const failed = () => Promise.resolve({ kind: "failed" } as const);

function unconnectedPool(config: PoolConfig): Ledger {
  return {
    nodes: [],
    methods: createWhitelist(config),
    internal: (name) => ({ name, params: [], cuMilli: 0 }),
    forget() {},
    subscriptions: { ...createFeedMethods(config), nameOf: () => undefined, open: failed },
    follows: { methods: createFollowMethods(config), open: failed },
    archive: { ...createArchiveMethods(config.methods), open: failed },
    submissions: { ...createSubmissionMethods(config.methods), submit: failed },
    call: () => ({ kind: "failed", reason: "unreachable" }),
    rpc: () => ({
      costMilliCu: 0,
      lines: [],
      failure: "unreachable",
      run: () => undefined,
      refuse: () => undefined,
      release() {},
      report() {},
    }),
  };
}
