/** Tests one plugin of kind `tools` through the real catalogue of tools. */
import type { ToolsPlugin } from "sluice-gateway/plugin";
import {
  startTested,
  type PluginExample,
  type TestedPlugin,
} from "sluice-gateway/internal/test-kit";
import type { Charge, ChargePart } from "./meter.ts";
import { capabilities, type Capability, type KeyPrincipal } from "./principal.ts";
import type { ToolCaller, Tools } from "./tool-catalogue.ts";
import type { ToolOutcome } from "./tool-result.ts";

export interface TestedTools<Options = unknown> extends TestedPlugin<Options> {
  readonly catalogue: Tools;
  /** `caller`: members in which the caller differs from the default, which has all capabilities. */
  call(tool: string, input?: unknown, caller?: TestCaller): Promise<ToolOutcome>;
}

export interface TestCaller extends Partial<Omit<ToolCaller, "principal" | "charge">> {
  readonly capabilities?: readonly Capability[];
}

/** Throws StartError if the manifest, the options or one of the tools has a fault. */
export async function testTools<Options>(
  plugin: ToolsPlugin<Options>,
  example: PluginExample<Options> = {},
): Promise<TestedTools<Options>> {
  const tested = await startTested(plugin, example);
  const tools = (): Tools => {
    const found = tested.hooksOf("tool-catalogue")?.service;
    if (found === undefined) throw new Error("the service `tool-catalogue` does not run");
    // This service implements the type.
    return found as Tools;
  };
  const call = async (
    tool: string,
    input: unknown = {},
    { capabilities: owned = capabilities, ...more }: TestCaller = {},
  ): Promise<ToolOutcome> =>
    tools().call(tool, input, {
      principal: principalWith(owned, tested.clock.now()),
      requestId: "test",
      charge: freeCharge,
      signal: new AbortController().signal,
      ...more,
    });
  return Object.defineProperties(tested, {
    // A reload may have replaced the catalogue.
    catalogue: { get: tools },
    call: { value: call },
  }) as TestedTools<Options> & typeof tested;
}

/** Grants every reservation and writes nothing. It always returns promises, as the gateway does with PostgreSQL. */
const freeCharge: Charge = {
  reserve: () => Promise.resolve(undefined),
  settle() {},
  open: (costMilliCu): Promise<ChargePart> =>
    Promise.resolve({
      reservedMilliCu: costMilliCu,
      settle() {},
      written: () => Promise.resolve(undefined),
      release() {},
    }),
  usedMilliCu: undefined,
};

function principalWith(owned: readonly Capability[], now: number): KeyPrincipal {
  return {
    kind: "key",
    key: {
      id: "key_test",
      workspaceId: "ws_test",
      name: "test",
      environment: "dev",
      capabilities: new Set(owned),
      rpsLimit: undefined,
      cuLimit24hMilli: undefined,
      cuLimit30dMilli: undefined,
      allowedAddresses: undefined,
      createdAt: now,
      expiresAt: undefined,
      revokedAt: undefined,
    },
    workspace: {
      id: "ws_test",
      name: "test",
      plan: "enterprise",
      pendingPlan: undefined,
      pendingPlanAt: undefined,
      purchasedTotalMilliCu: 0,
      overageLimitCuMilli: undefined,
      createdAt: now,
    },
    plan: {
      name: "enterprise",
      rps: 1_000,
      includedMilliCu: 1e9,
      overageUsdPerCu: undefined,
      maxKeys: 1_000,
    },
    rps: 1_000,
  };
}
