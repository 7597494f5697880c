/** Real agents edit a file through the gateway, in every API that they speak. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pipelineOf } from "../plugins/inference/chat/gateway.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { skipWithout } from "../skip-without.ts";
import { after, before, file, model, startEditWorker } from "./edit-worker.ts";
import { agents, runAgent, type Agent, type Api } from "./programs.ts";

/** Time limit of an agent, far above what it needs even on a busy machine. */
const maxMs = 180_000;

function pathOf({ folder, program }: Agent): string {
  return join(import.meta.dirname, folder, "node_modules", program);
}

async function edits(agent: Agent, api: Api): Promise<void> {
  await using worker = await startEditWorker();
  await using gateway = await startTestGateway({
    pipeline: pipelineOf({ network: "passes: [tools, sampling, format, reasoning]" }),
    env: { WORKER_URL: worker.url },
  });
  await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-agent-"));
  const work = join(folder.path, "work");
  const home = join(folder.path, "home");
  for (const path of [work, home]) await mkdir(path);
  await writeFile(join(work, file), before);
  const { url, key } = gateway;
  const prompt = `Use American spelling in ${file}.`;
  const command = agent.command(api, { url, key, model }, prompt, home);
  const { code, output } = await runAgent(agent, pathOf(agent), command, {
    work,
    home,
    maxMs,
  });
  assert.equal(code, 0, output);
  assert.match(output, /All done\./);
  assert.equal(await readFile(join(work, file), "utf8"), after, output);
}

for (const agent of agents) {
  const isInstalled = existsSync(pathOf(agent));
  const skip =
    agent.folder === "large" && !isInstalled
      ? "needs .ci/try-agents"
      : skipWithout("`npm install --no-save --ignore-scripts` in test/agents/small", isInstalled);
  for (const api of agent.apis) {
    test(`${agent.name} edits a file over the API for ${api}`, { skip }, () => edits(agent, api));
  }
}
