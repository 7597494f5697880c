/** The pods of the chart, run as a kubelet would run them: probes, first key, calls, shared credit and the stop. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { createDatabase } from "../store/servers.ts";
import { render, renderNotes, root, skip as skipWithoutGo } from "./chart/render.ts";
import {
  hasBubblewrap,
  openImageTree,
  skipWithoutBubblewrap,
  type ImageTree,
} from "./image-tree.ts";
import { openPod, type RunningPod } from "./pod.ts";

const guide = readFileSync(join(root, "docs/deploy/kubernetes.md"), "utf8");
const skip = skipWithoutGo || skipWithoutBubblewrap;
let tree: ImageTree | undefined;
let node: Awaited<ReturnType<typeof startDemoNode>>;
let model: Awaited<ReturnType<typeof startDemoModel>>;
before(async () => {
  if (!hasBubblewrap) return;
  tree = await openImageTree();
  node = await startDemoNode();
  model = await startDemoModel({ tokenMs: 1 });
});
after(async () => {
  tree?.[Symbol.dispose]();
  await node.close();
  await model.close();
});

const secrets = { sluice: { "gateway-secret": "0123456789abcdef0123456789abcdef" } };
const secret = { existingSecret: "sluice" };
const valuesWithBackends = () => ({
  secret,
  drainDelaySeconds: 0,
  variables: { LEDGER_RPC_URL: node.url, CONFIDENTIAL_CLASSIC_URL: model.url },
});

/** Makes a workspace and a key with the commands of NOTES.txt, and returns the key. */
async function firstKey(pod: RunningPod, values: object): Promise<string> {
  const notes = renderNotes(values).replaceAll("\\\n", "");
  const commands = notes.match(/(?<= -- +)\/nodejs.*/g) ?? [];
  assert.equal(commands.length, 2);
  let printed = "";
  for (const command of commands) {
    const id = /ws_\w+/.exec(printed)?.[0] ?? "";
    const words = command.replace("NAME", "acme").replace("WORKSPACE", id).split(" ");
    const { code, out } = await pod.exec(words);
    assert.equal(code, 0, out);
    printed = out;
  }
  return /gateway_prod_\w+/.exec(printed)?.[0] ?? assert.fail(printed);
}

async function call(pod: RunningPod, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "chain_getHeader" });
  const response = await fetch(`${pod.url}/v1/ledger/rpc`, { method: "POST", headers, body });
  assert.ok("result" in ((await response.json()) as object));
  return Number(response.headers.get("x-used-cu-milli"));
}

test(
  "the pod with a volume becomes ready, makes a key as NOTES.txt says, serves calls and stops",
  { skip },
  async () => {
    const values = valuesWithBackends();
    const pod = openPod(tree ?? assert.fail(), render(values), secrets);
    let key: string;
    {
      await using gateway = await pod.startGateway();
      key = await firstKey(gateway, values);
      assert.ok((await call(gateway, key)) > 0);
      // The dashboard answers on loopback, where `kubectl port-forward` connects.
      const dashboard = await fetch(`${gateway.adminUrl}/dashboard`);
      assert.equal(dashboard.status, 200);
      // The guide streams a backup out of the container, which has no tar.
      const words = /(?<=exec statefulset\/sluice -- )\/nodejs.* backup -/.exec(guide)?.[0] ?? "";
      const { code, out } = await gateway.exec(words.split(" "));
      assert.equal(code, 0, out);
      assert.ok(out.includes("manifest.json") && out.includes("state.db"));
      assert.equal(await gateway.stop(), 0);
    }
    // The next pod finds the accounts on the volume.
    await using again = await pod.startGateway();
    assert.ok((await call(again, key)) > 0);
  },
);

test(
  "the Job creates the tables, and pods without a volume share the accounts",
  { skip },
  async (t) => {
    const values = {
      ...valuesWithBackends(),
      durability: "none",
      replicas: 2,
      database: { existingSecret: "database" },
    };
    const all = { ...secrets, database: { "database-url": await createDatabase(t) } };
    const manifests = render(values);
    const image = tree ?? assert.fail();
    const job = openPod(image, manifests, all, { kind: "Job" });
    const { code, out } = await job.run(job.spec.containers[0] ?? assert.fail());
    assert.equal(code, 0, out);
    await using first = await openPod(image, manifests, all, { name: "pod-a" }).startGateway();
    await using second = await openPod(image, manifests, all, { name: "pod-b" }).startGateway();
    const key = await firstKey(first, values);
    assert.ok((await call(first, key)) > 0);
    assert.ok((await call(second, key)) > 0);
  },
);
