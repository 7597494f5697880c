/** The confirmation of a submission, end to end: when a token is valid and when it is not. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startGateway } from "../../src/gateway/gateway.ts";
import { post } from "../plugins/ledger/demo/rpc-client.ts";
import {
  recordedChain,
  startRecordedNode,
  startToolsGateway,
  withoutFixtures,
  type Called,
  type ToolsGateway,
} from "./ledger-tools-node.ts";
import type { RpcNode } from "./rpc-node.ts";

const hash = `0x${"7".repeat(64)}`;
const tool = "ledger_submitExtrinsic";
const answers = { author_submitExtrinsic: () => hash };

function extrinsics(): readonly [string, string] {
  const signed = recordedChain("westend-dev")
    .blocks.flatMap(({ block }) => block.block.extrinsics)
    .filter((extrinsic) => /^0x.{2,8}84/.test(extrinsic));
  const [first, second] = signed;
  assert(first !== undefined && second !== undefined && first !== second);
  return [first, second];
}

const submissions = ({ calls }: RpcNode): number =>
  calls.filter(({ method }) => method === "author_submitExtrinsic").length;

async function tokenFor(tools: ToolsGateway, extrinsic: string): Promise<unknown> {
  const { status, error } = await tools.call(tool, { extrinsic });
  assert.deepEqual([status, error?.code], [202, -32002]);
  return error?.data.details?.["confirmation_token"];
}

function expired({ status, error }: Called): void {
  assert.deepEqual(
    [status, error?.code, error?.data.errorCode],
    [410, -32003, "GATEWAY_CONFIRMATION_EXPIRED"],
  );
}

describe("a confirmed submission", { skip: withoutFixtures }, () => {
  it("happens once, for the same arguments, with the same key", async () => {
    await using node = await startRecordedNode("westend-dev", answers);
    await using tools = await startToolsGateway(node.url);
    const [extrinsic, another] = extrinsics();
    const confirmation_token = await tokenFor(tools, extrinsic);
    const other = await tools.gateway.issue({ capabilities: ["ledger:read", "ledger:write"] });
    expired(await tools.call(tool, { extrinsic: another, confirmation_token }));
    expired(await tools.call(tool, { extrinsic, confirmation_token }, other.key));
    expired(await tools.call(tool, { extrinsic, confirmation_token: "forged" }));
    assert.equal(submissions(node), 0);
    const done = await tools.call(tool, { confirmation_token, extrinsic });
    assert.deepEqual(done.result, { content: { hash }, usedCUMilli: 10_000 });
    expired(await tools.call(tool, { extrinsic, confirmation_token }));
    assert.equal(submissions(node), 1);
  });

  it("is remembered by a gateway that is restarted on the same store", async () => {
    await using node = await startRecordedNode("westend-dev", answers);
    await using tools = await startToolsGateway(node.url);
    const [extrinsic] = extrinsics();
    const used = await tokenFor(tools, extrinsic);
    const unused = await tokenFor(tools, extrinsic);
    const first = await tools.call(tool, { extrinsic, confirmation_token: used });
    assert.equal(first.status, 200);
    const { gateway, folder, key } = tools.gateway;
    await gateway.stop();

    const again = await startGateway({
      configFile: join(folder, "pipeline.yaml"),
      env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data"), NODE_URL: node.url },
      watch: false,
    });
    try {
      const submit = async (confirmation_token: unknown): Promise<number> => {
        const params = { tool, params: { extrinsic, confirmation_token } };
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools.call", params });
        const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
        return (await post(`${again.url}/rpc`, body, headers)).status;
      };
      assert.deepEqual(
        [await submit(used), await submit(unused), await submit(unused)],
        [410, 200, 410],
      );
      assert.equal(submissions(node), 2);
    } finally {
      await again.stop();
    }
  });
});
