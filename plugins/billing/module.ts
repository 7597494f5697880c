import type { Module } from "../../src/module.ts";

export default {
  commands: {
    keys: { load: async () => (await import("./commands/keys.ts")).keys },
    workspaces: { load: async () => (await import("./commands/workspaces.ts")).workspaces },
    audit: { load: async () => (await import("./commands/audit.ts")).audit },
    usage: { load: async () => (await import("./commands/usage.ts")).usage },
  },
  firstSteps: async () => (await import("./commands/first-steps.ts")).firstSteps,
  demo: async () => (await import("./demo/demo.ts")).demo,
} satisfies Module;
