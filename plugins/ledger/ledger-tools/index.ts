/** Tools `ledger_*`, with which agents read the chain and, if the operator enables it, submit extrinsics. */
import { defineTools } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import { upstreamOption } from "../ledger/upstream-option.ts";
import { accountTool } from "./account-tool.ts";
import { blockTools } from "./block-tools.ts";
import { chainTools } from "./chain-tools.ts";
import { methodTools } from "./method-tools.ts";
import type { Chain } from "./node.ts";
import { provedTools } from "./proved-tools.ts";
import { prompts } from "./prompts.ts";
import { storageTools } from "./storage-tools.ts";
import { submitTool } from "./submit-tool.ts";

interface Options {
  readonly upstream: string;
  readonly write: boolean;
}

export default defineTools<Options>({
  name: "ledger-tools",
  description: "Adds tools that read the chain and, if enabled, submit extrinsics.",
  options: {
    type: "object",
    additionalProperties: false,
    properties: {
      upstream: { ...upstreamOption, default: "ledger" },
      write: {
        description: "Adds ledger_submitExtrinsic, for keys with the capability ledger:write.",
        type: "boolean",
        default: false,
      },
    },
  },
  uses: ["ledger"],
  usesIfInstalled: ["proofs"],
  start({ upstream, write }, host) {
    const ledger = host.use("ledger").pool(upstream);
    const decoder = host.use("ledger").decoder(upstream);
    if (ledger === undefined || decoder === undefined) {
      throw new Error(`there is no upstream named ${upstream}`);
    }
    const chain: Chain = { ledger, decoder };
    const prove = host.use("proofs", { ifInstalled: true })?.prover(upstream)?.call;
    const tools = prove === undefined ? readTools(chain) : provedTools(chain, prove, readTools);
    return { tools: write ? [...tools, submitTool(chain)] : tools, prompts: prompts(chain) };
  },
});

function readTools(chain: Chain): readonly Tool<never>[] {
  return [
    ...blockTools(chain),
    ...chainTools(chain),
    ...storageTools(chain),
    accountTool(chain),
    ...methodTools(chain),
  ];
}
