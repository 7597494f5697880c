import { defineService, isObject, parseJson, type ServiceTypes } from "sluice-gateway/plugin";

interface Options {
  readonly url: string;
  readonly methods: readonly string[];
  readonly everyMs: number;
  readonly timeoutMs: number;
}

const section = {
  type: "object",
  properties: {
    url: { type: "string", description: "Address of the node." },
    methods: {
      type: "array",
      items: { type: "string" },
      default: ["eth_blockNumber", "eth_getBalance", "eth_call"],
      description: "The methods that plugins may call.",
    },
    everyMs: {
      type: "integer",
      minimum: 1_000,
      default: 12_000,
      description: "Time between probes.",
    },
    timeoutMs: {
      type: "integer",
      minimum: 100,
      default: 5_000,
      description: "Time limit of a call.",
    },
  },
  required: ["url"],
  additionalProperties: false,
};

export default defineService<{ readonly "evm-node": Options }, ServiceTypes["evm-node"]>({
  name: "evm-node",
  description: "Reaches a node of an EVM chain over JSON-RPC.",
  sections: { "evm-node": section },
  check: (options) =>
    "evm-node" in options ? [] : [{ pointer: "", message: 'the section "evm-node" is missing' }],
  permissions: { hosts: ["*"], body: "none" },
  dryRun: () => ({ call: () => Promise.reject(new Error("a dry run")), head: () => undefined }),
  start({ "evm-node": { url, methods, everyMs, timeoutMs } }, host) {
    const node = host.upstream(url, { answerMs: timeoutMs, idleMs: timeoutMs });
    const headers = { "content-type": "application/json" };
    let nextId = 0;
    let head: number | undefined;
    let problem: string | undefined = "the node has not answered yet";

    async function send(method: string, params: readonly unknown[]): Promise<unknown> {
      const id = ++nextId;
      const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
      const response = await node.request({ method: "POST", headers, body });
      // The node is not trusted: its answer may not be JSON.
      const answer = response.status === 200 ? parseJson(response.body.toString()) : undefined;
      if (!isObject(answer) || answer["id"] !== id)
        throw new Error("the node did not send a JSON-RPC answer");
      if ("error" in answer) throw new Error(`the node refused ${method}`);
      return answer["result"];
    }

    async function probe(): Promise<void> {
      try {
        const number = Number(await send("eth_blockNumber", []));
        if (!Number.isSafeInteger(number)) throw new Error("the node did not send a block number");
        head = number;
        problem = undefined;
      } catch (error) {
        problem = "the node does not answer";
        host.log.warn({ err: error }, problem);
      }
    }
    // The gateway ends the timer and the connections when the plugin stops.
    host.every(everyMs, probe);
    const first = probe();
    return {
      service: {
        head: () => head,
        call: (method, params = []) =>
          methods.includes(method)
            ? send(method, params)
            : Promise.reject(new Error(`the method ${method} is not allowed`)),
      },
      initialized: () => first,
      backends: () => [
        { kind: "evm", title: "evm node", ready: problem ?? true, details: { head } },
      ],
    };
  },
});
