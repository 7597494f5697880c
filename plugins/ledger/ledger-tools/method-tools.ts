import { toolFailure, type Tool, type ToolContext, type ToolResult } from "sluice-gateway/services";
import { capability, readsChain } from "./tool-defaults.ts";
import { callListedMethod, failureOf, type Chain } from "./node.ts";

interface RpcInput {
  readonly method: string;
  readonly params?: readonly unknown[];
}

interface ListInput {
  readonly namespace?: string;
}

const notAllowed = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "method: not a whitelisted node method; ledger_listMethods lists them",
);

export function methodTools(chain: Chain): Tool<never>[] {
  const rpc: Tool<RpcInput> = {
    name: "ledger_rpc",
    description:
      "Calls a whitelisted JSON-RPC method of the node and returns its result unchanged. ledger_listMethods lists the methods and their params.",
    inputSchema: {
      type: "object",
      required: ["method"],
      properties: {
        method: { type: "string", description: "A whitelisted method, such as chain_getHeader." },
        params: {
          type: "array",
          items: {},
          default: [],
          description: "Positional params of the method.",
        },
      },
    },
    price: 1000,
    ...readsChain("Node method"),
    call: (input, context) => callMethod(chain, input, context),
  };
  const listMethods: Tool<ListInput> = {
    name: "ledger_listMethods",
    description:
      "Lists the whitelisted JSON-RPC methods of the node with their params and their price on the node proxy in milli-CU.",
    inputSchema: {
      type: "object",
      properties: {
        namespace: {
          type: "string",
          description: "List only methods whose name starts with this text, such as state_.",
        },
      },
    },
    price: 100,
    capability,
    // The list comes from the gateway itself.
    annotations: { ...readsChain("Node methods").annotations, openWorldHint: false },
    call: ({ namespace = "" }) => ({ ok: true, value: { methods: listed(chain, namespace) } }),
  };
  return [rpc, listMethods];
}

async function callMethod(
  { ledger }: Chain,
  { method: name, params = [] }: RpcInput,
  context: ToolContext,
): Promise<ToolResult> {
  const method = ledger.methods.get(name);
  if (method === undefined) return notAllowed;
  const answer = await callListedMethod(ledger, method, JSON.stringify(params), context);
  if (answer.kind !== "result") return failureOf(answer);
  const result = answer.bytes.toString();
  return { ok: true, json: `{"method":${JSON.stringify(name)},"result":${result}}` };
}

function listed({ ledger }: Chain, namespace: string): object[] {
  return [...ledger.methods.values()]
    .filter(({ name }) => name.startsWith(namespace))
    .map(({ name, params, cuMilli }) => ({ name, params, cuMilli }));
}
