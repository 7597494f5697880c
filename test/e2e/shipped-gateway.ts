import { readFileSync } from "node:fs";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../plugins/contracts/testing.ts";

export const shipped = readFileSync(new URL("../../pipeline.yaml", import.meta.url), "utf8");

export interface LedgerGateway extends TestGateway {
  /** Address for WebSocket clients, with the key in its path. */
  readonly wsUrl: string;
}

export async function startLedgerGateway(
  nodeUrl: string,
  options: Partial<Omit<TestGatewayOptions, "env">> = {},
): Promise<LedgerGateway> {
  const gateway = await startTestGateway({
    pipeline: shipped,
    env: { LEDGER_RPC_URL: nodeUrl },
    ...options,
  });
  const wsUrl = `${gateway.url.replace("http:", "ws:")}/v1/ledger/ws/${gateway.key}`;
  return Object.assign(gateway, { wsUrl });
}
