/** Real agents edit a file through the gateway, in every API that they speak. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { pipelineOf } from "../plugins/inference/chat/gateway.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { after, model, startEditWorkers, task } from "./edit-worker.ts";
import { agents, editWith, skipUninstalled, type Agent, type Api } from "./programs.ts";

/** Lets an agent edit the file. Two of three workers fail, and the key may send only one request per second. */
async function edit(agent: Agent, api: Api, breaks: boolean): Promise<string> {
  await using worker = await startEditWorkers({ breaks });
  const clock = manualClock();
  await using gateway = await startTestGateway({
    pipeline: pipelineOf({
      network: `passes: [tools, sampling, format, reasoning], status: { url: "\${WORKER_URL}/status" }`,
    }),
    env: { WORKER_URL: worker.url },
    account: { rpsLimit: 1 },
    clock,
  });
  const { url, key } = gateway;
  const ended = new AbortController();
  const moving = moveAfterRefusals(gateway, clock, ended.signal);
  const editing = editWith(agent, api, { url, key, model }, task);
  await editing.finally(() => ended.abort());
  // The first two requests are admitted, and every agent sends a third one or repeats the second.
  assert.ok((await moving) > 0);
  return editing;
}

/** Moves the clock by a second after every request that the rate has refused. Returns their number. */
async function moveAfterRefusals(
  { adminUrl }: TestGateway,
  clock: ManualClock,
  ended: AbortSignal,
): Promise<number> {
  for (let refused = 0; ;) {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
    const lines = metrics.split("\n").filter((line) => line.startsWith("sluice_refusals_total{"));
    const limited = lines.filter((line) => line.includes("GATEWAY_RATE_LIMITED"));
    const now = limited.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
    if (now > refused) clock.advance(1_000);
    refused = now;
    if (ended.aborted) return refused;
    await setTimeout(50);
  }
}

for (const agent of agents) {
  const skip = skipUninstalled(agent);
  for (const api of agent.apis) {
    const repeats = agent.repeats.includes(api);
    const broken = repeats ? ", a stream that breaks" : "";
    const title = `${agent.name} edits a file over the API for ${api}, in spite of failing workers${broken} and 429`;
    test(title, { skip }, async () => {
      assert.equal(await edit(agent, api, repeats), after);
    });
  }
}
