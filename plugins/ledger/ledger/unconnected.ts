/** Node pools without nodes, with which `sluice check` starts the plugins that use them. */
import type { Host } from "sluice-gateway/plugin";
import type { Ledger, Ledgers } from "sluice-gateway/services";
import { createDecoder } from "./decode/decoder.ts";
import { createArchiveMethods } from "./archive/archive-methods.ts";
import { createFollowMethods } from "./follow/follow-methods.ts";
import { createSubmissionMethods } from "./submit/submission-methods.ts";
import { createFeedMethods } from "./feed/subscription-methods.ts";
import { poolConfig, type Options, type PoolConfig } from "./options.ts";
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
      return ledger && createDecoder({ ledger, compute: host.compute, clock: host.clock });
    },
  };
}

function unconnectedPool(config: PoolConfig): Ledger {
  return {
    nodes: [],
    methods: createWhitelist(config),
    internal: (name) => ({ name, params: [], cuMilli: 0 }),
    forget() {},
    subscriptions: {
      ...createFeedMethods(config),
      nameOf: () => undefined,
      open: () => Promise.resolve({ kind: "failed" }),
    },
    follows: {
      methods: createFollowMethods(config),
      open: () => Promise.resolve({ kind: "failed" }),
    },
    archive: {
      ...createArchiveMethods(config.methods),
      open: () => Promise.resolve({ kind: "failed" }),
    },
    submissions: {
      ...createSubmissionMethods(config.methods),
      submit: () => Promise.resolve({ kind: "failed" }),
    },
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
