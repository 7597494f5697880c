/** Real agents edit a file through `sluice connect`, so every tool call passes through an enclave, encrypted. */
import assert from "node:assert/strict";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startChain } from "../plugins/confidential/sealed-networks/chain.ts";
import { localKey } from "../plugins/confidential/sealed-networks/local-gateway.ts";
import { after, before, file, model, startEditWorkers } from "./edit-worker.ts";
import { agents, pathOf, runAgent, skipUninstalled } from "./programs.ts";

const maxMs = 180_000;

for (const agent of agents) {
  const skip = skipUninstalled(agent);
  for (const api of agent.apis) {
    test(`${agent.name} edits a file over the API for ${api}, encrypted`, { skip }, async (t) => {
      await using worker = await startEditWorkers({ breaks: false });
      // The first two workers fail, and the enclave is at the third.
      const headers = { "content-type": "application/json" };
      for (const id of ["w1", "w2"]) {
        const request = { method: "POST", headers, body: "{}" };
        await (await fetch(`${worker.url}/${id}/v1/chat/completions`, request)).text();
      }
      worker.documents.set("/w3/v1/models", { data: [{ id: model }] });
      const { url } = await startChain(t, { upstream: `${worker.url}/w3`, model });
      await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-agent-"));
      const [work, home] = [join(folder.path, "work"), join(folder.path, "home")];
      for (const path of [work, home]) await mkdir(path);
      await writeFile(join(work, file), before);
      const prompt = `Use American spelling in ${file}.`;
      const command = agent.command(api, { url, key: localKey, model }, prompt, home);
      const { code, output } = await runAgent(agent, pathOf(agent), command, { work, home, maxMs });
      assert.equal(code, 0, output);
      assert.match(output, /All done\./);
      assert.equal(await readFile(join(work, file), "utf8"), after, output);
    });
  }
}
