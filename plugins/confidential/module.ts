import type { Module } from "../../src/module.ts";

export default {
  commands: {
    verify: { load: async () => (await import("./commands/verify.ts")).verify },
    policy: { load: async () => (await import("./commands/policy.ts")).policy },
    worker: { load: async () => (await import("./commands/worker.ts")).worker, isServer: true },
  },
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
