import { toolFailure, type Tool, type ToolContext, type ToolResult } from "sluice-gateway/services";
import { decodedAt } from "./block.ts";
import { blockHashFault, hexSchema, readsChain } from "./tool-defaults.ts";
import { decodeFailureOf, type Chain } from "./node.ts";

interface AccountInput {
  readonly address: string;
  readonly blockHash?: string;
}

export const badAddress = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "address: not an SS58 address, or its checksum is wrong",
);

export function accountTool(chain: Chain): Tool<never> {
  return {
    name: "ledger_getAccount",
    description:
      "Gets an account's nonce, reference counters and balances (decimal strings in the token's smallest unit). An account that does not exist has zeros.",
    inputSchema: {
      type: "object",
      required: ["address"],
      properties: {
        address: {
          type: "string",
          description: "SS58 address of the account, of any network prefix.",
        },
        blockHash: hexSchema("Read at this block: 0x and 64 hex digits. Default: the best block."),
      },
    },
    price: 500,
    ...readsChain("Account"),
    call: (input: AccountInput, context) => account(chain, input, context),
  };
}

async function account(
  chain: Chain,
  { address, blockHash }: AccountInput,
  context: ToolContext,
): Promise<ToolResult> {
  const { decoder } = chain;
  const fault = blockHashFault("blockHash", blockHash);
  if (fault !== undefined) return fault;
  const id = decoder.accountId(address);
  if (id === undefined) return badAddress;
  const at = blockHash?.toLowerCase();
  const found = await decoder.account(id, at, context);
  if (at === undefined) return found.ok ? found : decodeFailureOf(found);
  return decodedAt(chain, at, found, { isEmpty: isEmptyAccount, context });
}

/** Returns true for an account without references. chopsticks also returns that for any account at an unknown block. */
function isEmptyAccount(json: string): boolean {
  return json.startsWith('{"nonce":0,"consumers":0,"providers":0,"sufficients":0,');
}
