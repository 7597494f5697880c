/** Real agents edit a file through `sluice connect`, so every tool call passes through an enclave, encrypted. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startChain } from "../plugins/confidential/sealed-networks/chain.ts";
import { localKey } from "../plugins/confidential/sealed-networks/local-gateway.ts";
import { after as edited, model, startEditWorkers, task } from "./edit-worker.ts";
import { agents, editWith, skipUninstalled } from "./programs.ts";

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());

/** URL of the local gateway that all agents use. The first agent starts it. */
let url: Promise<string> | undefined;

async function startLocal(): Promise<string> {
  const worker = stack.use(await startEditWorkers({ breaks: false }));
  // The first two workers fail, and the enclave is at the third.
  const headers = { "content-type": "application/json" };
  for (const id of ["w1", "w2"]) {
    const request = { method: "POST", headers, body: "{}" };
    await (await fetch(`${worker.url}/${id}/v1/chat/completions`, request)).text();
  }
  worker.documents.set("/w3/v1/models", { data: [{ id: model }] });
  const ending = { after: (close: () => Promise<void>): void => stack.defer(close) };
  return (await startChain(ending, { upstream: `${worker.url}/w3`, model })).url;
}

for (const agent of agents) {
  const skip = skipUninstalled(agent);
  for (const api of agent.apis) {
    test(`${agent.name} edits a file over the API for ${api}, encrypted`, { skip }, async () => {
      url ??= startLocal();
      const gateway = { url: await url, key: localKey, model };
      assert.equal(await editWith(agent, api, gateway, task), edited);
    });
  }
}
