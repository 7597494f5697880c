import type { Module } from "sluice-gateway/internal/module";
import proofs from "./proofs/index.ts";

export default {
  services: [proofs],
  companions: { proofs: "ledger" },
  commands: {
    "verify --head": {
      load: async () => (await import("./commands/verify-head.ts")).verifyHead,
    },
  },
  ownFields: ["x-sluice-proof"],
  errors: { calls: { NOT_PROVED: { message: "the answer is not proved" } } },
} satisfies Module;
