/** Starts the demo backends of `sluice dev`, if the environment does not name other ones. */
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";

export interface Demo {
  /** Environment variables with which the gateway finds the demo backends. */
  readonly env: Readonly<Record<string, string>>;
  /** Undefined if the environment names a node. */
  readonly nodeUrl: string | undefined;
  /** Undefined if the environment names a model server. */
  readonly modelUrl: string | undefined;
  readonly modelId: string;
}

/** Price in USD of a fictitious native token, so that prices are shown: 12 nano tokens cost 3 milli-CU per token. */
const demoRate = "0.25";

/** Starts the node and the model that `env` does not name. `started`: receives them, and closes them. */
export async function startDemo(
  env: Readonly<Record<string, string | undefined>>,
  started: AsyncDisposableStack,
): Promise<Demo> {
  const found: Record<string, string> = {};
  if (!env["CONFIDENTIAL_EVIDENCE"]) found["CONFIDENTIAL_EVIDENCE"] = "simulated";
  let nodeUrl: string | undefined;
  let modelUrl: string | undefined;
  if (!env["LEDGER_RPC_URL"]) {
    const node = await startDemoNode();
    started.defer(() => node.close());
    nodeUrl = node.url;
    found["LEDGER_RPC_URL"] = nodeUrl;
  }
  if (!env["CONFIDENTIAL_CLASSIC_URL"]) {
    const model = await startDemoModel();
    started.defer(() => model.close());
    modelUrl = model.url;
    found["CONFIDENTIAL_CLASSIC_URL"] = modelUrl;
    if (!env["CONFIDENTIAL_CLASSIC_STATUS_URL"]) {
      found["CONFIDENTIAL_CLASSIC_STATUS_URL"] = model.statusUrl;
    }
    if (!env["TOKEN_USD_RATE"]) found["TOKEN_USD_RATE"] = demoRate;
  }
  return { env: found, nodeUrl, modelUrl, modelId: demoModelId };
}
