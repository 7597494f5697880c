import { toolFailure, type Prompt, type PromptResult } from "sluice-gateway/services";
import { isHash } from "../ledger/decode/call-node.ts";
import { badAddress } from "./account-tool.ts";
import { capability } from "./tool-defaults.ts";
import type { Chain } from "./node.ts";

const badBlock = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "block: neither a height nor 0x and 64 hex digits",
);

export function prompts({ decoder }: Chain): readonly Prompt[] {
  return [
    {
      name: "ledger_explainBlock",
      title: "Explain a block",
      description: "Explains in words what happened in a block.",
      arguments: [
        { name: "block", description: "Height, or 0x and 64 hex digits.", required: true },
      ],
      capability,
      get: ({ block = "" }) => explainBlock(block.trim()),
    },
    {
      name: "ledger_explainAccount",
      title: "Explain an account",
      description:
        "Explains the balances of an account, and why parts of them are locked or reserved.",
      arguments: [{ name: "address", description: "SS58 address.", required: true }],
      capability,
      get({ address = "" }) {
        const given = address.trim();
        return decoder.accountId(given) === undefined ? badAddress : explainAccount(given);
      },
    },
  ];
}

const units =
  "Balances are in the token's smallest unit; ledger_getChainStats names its decimals and symbol.";
const doNotGuess = "If the tools do not provide a fact, say so instead of guessing.";

function explainBlock(block: string): PromptResult {
  const isHeight = /^\d{1,10}$/.test(block);
  if (!isHeight && !isHash(block)) return badBlock;
  const input = isHeight ? { height: Number(block) } : { hash: block };
  return userPrompt(
    `Explain what happened in block ${block}. Read it with ledger_getBlockDecoded ${JSON.stringify(input)}.`,
    "For each signed extrinsic, say what was called and, from the events of its phase, whether it succeeded and what it moved.",
    "Sum up the rest in a sentence. args and data are SCALE-encoded bytes of the runtime's own types.",
    units,
    doNotGuess,
  );
}

function explainAccount(address: string): PromptResult {
  return userPrompt(
    `Explain the account ${address}. Read it with ledger_getAccount.`,
    "Say how much is free, reserved and frozen, how much of it can be spent, how many transactions it has sent (nonce), and what refers to it (consumers, providers, sufficients).",
    units,
    doNotGuess,
  );
}

function userPrompt(...sentences: readonly string[]): PromptResult {
  const content = { type: "text", text: sentences.join("\n") };
  return { ok: true, messages: [{ role: "user", content }] };
}
