/**
 * Tests of plugins, exported as `sluice-gateway/testing`: a single plugin (`testStep` and the like), or a whole gateway
 * with a workspace and a key.
 */
import type { Environment } from "sluice-gateway/plugin";
import {
  startBareGateway,
  type BareGateway,
  type BareGatewayOptions,
} from "sluice-gateway/internal/bare-gateway";
import type { AccountsAdmin } from "./accounts.ts";
import type { Capability, PlanName } from "./principal.ts";

export {
  manualClock,
  scriptedUpstream,
  testService,
  testStep,
  testSurface,
  type ManualClock,
  type PluginExample,
  type RunningRequest,
  type ScriptedUpstream,
  type StepExample,
  type TestAnswer,
  type TestedHandler,
  type TestedPlugin,
  type TestedService,
  type TestRequest,
  type UpstreamReply,
  type UpstreamRequest,
} from "sluice-gateway/internal/test-kit";
export { testTools, type TestCaller, type TestedTools } from "./test-tools.ts";

export interface TestGatewayOptions extends BareGatewayOptions {
  /** The workspace and the limits of the first key. */
  readonly account?: WantedKey;
}

/** A workspace and one of its keys. The defaults are the plan `enterprise` and the capabilities of a new key. */
export interface WantedKey {
  readonly plan?: PlanName;
  readonly overageLimitCuMilli?: number;
  readonly capabilities?: readonly Capability[];
  readonly rpsLimit?: number;
  readonly cuLimit24hMilli?: number;
  readonly cuLimit30dMilli?: number;
  readonly allowedAddresses?: readonly string[];
  /** Milliseconds since 1970. */
  readonly expiresAt?: number;
  readonly createdAt?: number;
}

export interface TestKey {
  readonly workspaceId: string;
  readonly keyId: string;
  /** Text for `Authorization: Bearer`. */
  readonly key: string;
}

export interface TestGateway extends TestKey, BareGateway {
  /** Creates another workspace and key. The running gateway accepts the key at once. */
  issue(wanted: WantedKey): Promise<TestKey>;
}

/** Throws `StartError` if the pipeline does not start. Dispose of the gateway to stop it and remove its folder. */
export async function startTestGateway(options: TestGatewayOptions): Promise<TestGateway> {
  await using starting = new AsyncDisposableStack();
  const bare = starting.use(await startBareGateway(options));
  const { admin } = bare.gateway.use("accounts") ?? noAccounts();
  const issue = (wanted: WantedKey): Promise<TestKey> => issueKey(admin, bare.environment, wanted);
  const account = await issue(options.account ?? {});
  starting.move();
  return { ...bare, ...account, issue };
}

async function issueKey(
  admin: AccountsAdmin,
  environment: Environment,
  wanted: WantedKey,
): Promise<TestKey> {
  const { plan = "enterprise", overageLimitCuMilli, ...limits } = wanted;
  const by = { actor: "test", at: wanted.createdAt ?? Date.now() };
  const created = await admin.createWorkspace({ name: "test", plan, overageLimitCuMilli }, by);
  const { id: workspaceId } = created;
  const capabilities = admin.defaultCapabilities;
  const key = { name: "test", workspaceId, environment, capabilities, ...limits };
  const issued = await admin.createKey(key, by);
  if (!("text" in issued)) throw new Error(`no test key: ${issued.message}`);
  return { workspaceId, keyId: issued.key.id, key: issued.text };
}

function noAccounts(): never {
  throw new Error("the service `accounts` does not run");
}
