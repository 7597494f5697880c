/** `sluice verify --head`: checks the finalized heads of the nodes of an upstream once, without a running gateway. */
import { UsageError, type Command, type CommandContext } from "sluice-gateway/internal/module";
import { printFault, readPipeline } from "sluice-gateway/internal/process";
import { upstreamIn } from "sluice-gateway/internal/http";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { FinalizedChain, type Checkpoint } from "../proofs/finalized-chain.ts";
import { checkHeads, type NodeHead } from "../proofs/head-check.ts";
import { maxAnswerBytes } from "../proofs/ledger-node.ts";
import { NodeError, nodeRefusal, type HeadNode } from "../proofs/node.ts";
import type { Options } from "../proofs/options.ts";

export const verifyHead: Command = {
  summary: "check the finalized heads of the nodes",
  help: `usage: sluice verify --head [UPSTREAM…]

Asks every node of the upstreams for its finalized head, and proves the heads by GRANDPA justifications if the upstream
has a checkpoint in pipeline.yaml. Prints the head of each node and whether it is proved. Without UPSTREAM, it checks
the upstreams that have a checkpoint. Exit code 0 if every head is proved or, without a checkpoint, if all nodes agree.

--json  print one JSON document per upstream, with a new checkpoint at the highest proved block`,
  options: { head: { type: "boolean" } },
  async run(context, _values, names) {
    const { config, faults } = await readPipeline(context.configFile, context.env);
    if (config === undefined || faults.length > 0) {
      for (const fault of faults) context.printToStderr(printFault(fault, process.cwd()));
      return 1;
    }
    // The section has been validated.
    const upstreams = (config.sections["upstreams"] ?? {}) as Options["upstreams"];
    const checkpointOf = (name: string): Checkpoint | undefined =>
      Object.hasOwn(upstreams, name) ? upstreams[name]?.checkpoint : undefined;
    const wanted = names.length > 0 ? names : Object.keys(upstreams).filter(checkpointOf);
    if (wanted.length === 0)
      throw new UsageError("no upstream has a checkpoint; expected the name of an upstream");
    let accepted = true;
    for (const name of wanted) {
      const urls = upstreamIn(config, name)?.urls;
      if (urls === undefined) throw new UsageError(`unknown upstream "${name}"`);
      const checkpoint = checkpointOf(name);
      const chain = checkpoint && new FinalizedChain(checkpoint);
      const heads = await checkHeads(nodesOf(urls, context.signal), chain);
      print(context, name, heads, chain);
      accepted &&= heads.every(({ state }) => state === (chain ? "proved" : "unproved"));
    }
    return accepted ? 0 : 1;
  },
};

/** Returns the nodes in the order of their URLs. */
function nodesOf(urls: readonly string[], signal: AbortSignal): readonly HeadNode[] {
  return urls.map((url, index) => {
    const { host } = new URL(url);
    const isShared = urls.filter((other) => new URL(other).host === host).length > 1;
    // A Substrate node serves WebSocket and HTTP at one port.
    const address = url.replace(/^ws/, "http");
    return {
      name: isShared ? `${host}#${index}` : host,
      async call(method, params) {
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
        const answer = await post(address, body, signal).catch(() => undefined);
        if (answer === undefined) throw new NodeError("the node does not answer over HTTP");
        const read = parseOrUndefined(answer.toString());
        if (isObject(read) && "result" in read) return read["result"];
        if (isObject(read) && isObject(read["error"]))
          throw nodeRefusal(method, read["error"]["code"]);
        throw new NodeError(`the node did not answer ${method} with JSON-RPC`);
      },
    };
  });
}

const answerMs = 10_000;

/** Rejects if the node does not answer. */
async function post(url: string, body: string, signal: AbortSignal): Promise<Buffer> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
  });
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk);
    if ((bytes += chunk.length) > maxAnswerBytes) throw new Error("the answer is too large");
  }
  return Buffer.concat(chunks);
}

function print(
  context: CommandContext,
  upstream: string,
  heads: readonly NodeHead[],
  chain: FinalizedChain | undefined,
): void {
  const ended = chain?.ended;
  if (context.json) {
    const checkpoint = ended === undefined ? chain?.checkpoint : undefined;
    return context.print(JSON.stringify({ upstream, heads, ended, checkpoint }));
  }
  const width = Math.max(...heads.map(({ node }) => node.length));
  for (const { node, state, number = "", hash = "", reason = "" } of heads)
    context.print(
      `${state.padEnd(8)}  ${node.padEnd(width)}  ${number} ${hash} ${reason}`.trimEnd(),
    );
  context.print(
    chain === undefined
      ? `${upstream}: nothing is proved, because there is no checkpoint`
      : `${upstream}: proved up to block ${chain.number} ${chain.hash}, authority set ${chain.setId}${ended === undefined ? "" : `; ${ended}`}`,
  );
}
