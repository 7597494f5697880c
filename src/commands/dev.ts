/** `sluice dev`: runs the gateway with a demo node, a demo model, a key and example requests. `npm start` runs it. */
import { resolve } from "node:path";
import type { Config } from "../config/config.ts";
import { shownPath } from "../config/fault.ts";
import { upstreamIn } from "../http/upstream/service.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import { openDemoAccount, type DemoAccount } from "../../plugins/billing/demo/account.ts";
import { startDemo, type Demo } from "./demo.ts";
import { headOf, proposeChat, proposeRequests, type ProposedRequest } from "./demo-requests.ts";
import { isFault } from "../../plugins/confidential/protocol/fault.ts";
import { createLog } from "../log.ts";
import { pluginModules } from "../pipeline/load/load.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { version } from "../version.ts";
import type { Command, CommandContext } from "./command.ts";
import { shippedPipeline } from "./config-file.ts";
import { catchFatalErrors } from "./fatal-errors.ts";
import { drainOf, runUntilStopped, startOrComplain } from "./start.ts";

export const dev: Command = {
  summary: "run the gateway with a demo node, a demo model, a key and example requests",
  help: `usage: sluice dev [--config FILE] [--env-file FILE] [--json]

Starts the gateway, creates the workspace "demo" with an API key, and prints example requests that work. The demo node
replays recorded answers of a real runtime, unless LEDGER_RPC_URL is the address of your own node. The demo model echoes
the last user message, unless CONFIDENTIAL_CLASSIC_URL is the address of your own model server.
The command runs with GATEWAY_ENV=dev only. On SIGINT or SIGTERM the gateway drains and the command ends.

The gateway reloads when you save pipeline.yaml, or the code of a plugin that pipeline.yaml names by its path. Plugins
are checked against their manifests: a plugin that reads or sets a slot that it has not declared, or writes to the head
of the request, fails with an error in the log.

Without --config, SLUICE_CONFIG and ./pipeline.yaml, the command runs the pipeline.yaml that ships with Sluice and keeps
its data in the working folder. To write your own pipeline.yaml, run sluice init.

The encrypted stream ends in this process. Its evidence is simulated and proves nothing, so clients must opt in.

Environment variables:
  LEDGER_RPC_URL             address of your own node: http, https, ws or wss
  CONFIDENTIAL_CLASSIC_URL   address of your own model server, such as http://127.0.0.1:8000: any server with OpenAI's
                             chat completions API
  TOKEN_USD_RATE             USD per native token, for the price of your own models
  PRICE_PER_TOKEN_NANO       nano native tokens per token, for the price of your own models
  CONFIDENTIAL_EVIDENCE      source of real attestation evidence for this process: auto, tdx, sev-snp or dstack
  PORT                       port on which clients connect (default: 8080)
  ADMIN_PORT                 port of the dashboard, metrics and health checks (default: 9090)
  DATA_DIR                   folder for accounts and charges (default: ./data)
  LOG_LEVEL                  level of the log on standard error (default: warn); info logs every request

  --json   print the addresses, the key and the example requests as one JSON document`,
  mayUseShippedPipeline: true,
  options: {},
  async run(context) {
    using fatal = catchFatalErrors({ destination: process.stderr, modules: pluginModules });
    await using started = new AsyncDisposableStack();
    const demo = await startDemo(context.env, started);
    const LOG_LEVEL = context.env["LOG_LEVEL"] || "warn";
    const env = { ...context.env, ...demo.env, LOG_LEVEL, ...dataFolder(context) };
    // The log goes to standard error, because standard output is for the banner. The log is held until the banner is
    // out.
    using log = new HeldLog();
    const gateway = await startInDevelopment({ ...context, env }, log);
    if (gateway === undefined) return 1;
    fatal.drain = drainOf(gateway);
    try {
      const setUp = await prepare(gateway, demo);
      context.print(context.json ? JSON.stringify(asJson(setUp)) : asText(setUp));
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    log.release();
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

/** Keeps the data of the shipped pipeline.yaml in the working folder, because the file itself is in the package. */
function dataFolder({ configFile, env }: CommandContext): { readonly DATA_DIR?: string } {
  return configFile === shippedPipeline ? { DATA_DIR: resolve(env["DATA_DIR"] || "data") } : {};
}

/** Holds the lines of a log until `release`, then writes them to standard error. */
class HeldLog {
  #held: string[] | undefined = [];

  write(line: string): void {
    if (this.#held === undefined) process.stderr.write(line);
    else this.#held.push(line);
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const line of held) process.stderr.write(line);
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/**
 * Starts the gateway in the environment dev only, because a key that is printed on a terminal must not be valid in a
 * deployment.
 */
async function startInDevelopment(
  context: CommandContext,
  destination: HeldLog,
): Promise<Gateway | undefined> {
  // startOrComplain prints the faults of the file.
  const { config, faults } = await readPipeline(context.configFile, context.env);
  if (config === undefined || faults.length > 0) return startOrComplain(context);
  if (config.environment !== "dev") {
    context.complain(
      `sluice dev prints an API key, so it runs with GATEWAY_ENV=dev only, not ${config.environment}. Run sluice start instead.`,
    );
    return undefined;
  }
  const log = createLog({ level: config.log.level, destination });
  return startOrComplain(context, { log, strict: true });
}

/** Everything that a user needs to call the gateway. */
interface SetUp {
  readonly gateway: Gateway;
  readonly account: DemoAccount;
  /** The hosts of the nodes behind the gateway. Undefined if it is the demo node. */
  readonly nodes: readonly string[] | undefined;
  /** Undefined when no route leads to the node. */
  readonly rpcUrl: string | undefined;
  /** The hosts of the model servers. Undefined if it is the demo model. */
  readonly models: readonly string[] | undefined;
  /** Undefined when no route leads to a model. */
  readonly chatUrl: string | undefined;
  /** Undefined when no route leads to the encrypted stream, or its evidence is not simulated. */
  readonly stream: SimulatedStream | undefined;
  readonly requests: readonly ProposedRequest[];
}

interface SimulatedStream {
  readonly url: string;
  /** The test root, DER in base64. */
  readonly root: string;
  /** A command that opens a session and prints the checks. Undefined if the demo model is not used. */
  readonly verify: string | undefined;
}

async function prepare(gateway: Gateway, demo: Demo): Promise<SetUp> {
  const account = openDemoAccount(gateway.config.store.data, Date.now());
  const ledger = await prepareLedger(gateway, account.key, demo.nodeUrl);
  const chat = prepareChat(gateway, account.key, demo);
  // The first two requests are one call and one chat.
  const [call = [], ...more] = ledger.requests;
  const requests = [call, chat.requests, more].flat();
  const stream = await prepareStream(gateway, account.key, demo);
  return { gateway, account, ...ledger, ...chat, stream, requests };
}

type Ledger = Pick<SetUp, "nodes" | "rpcUrl" | "requests">;

async function prepareLedger(
  { config, url }: Gateway,
  key: string,
  demoUrl: string | undefined,
): Promise<Ledger> {
  const route = config.routes.find(({ to }) => to.name === "ledger-rpc");
  if (route === undefined) return { nodes: [], rpcUrl: undefined, requests: [] };
  const rpcUrl = url + route.path;
  const urls = upstreamUrls(config, route.to.options["upstream"]);
  // The demo node is unused if the pipeline does not use LEDGER_RPC_URL.
  const isDemo = demoUrl !== undefined && urls.some((each) => sameHost(each, demoUrl));
  const head = urls[0] === undefined ? undefined : await headOf(urls[0]);
  return {
    nodes: isDemo ? undefined : urls.map((each) => new URL(each).host),
    rpcUrl,
    requests: proposeRequests(rpcUrl, key, head),
  };
}

type Chat = Pick<SetUp, "models" | "chatUrl" | "requests">;

function prepareChat({ config, url }: Gateway, key: string, { modelUrl, modelId }: Demo): Chat {
  const route = config.routes.find(({ to, path }) => to.name === "chat" && !path.includes("{"));
  const urls = config.networks.map((network) => network.url);
  if (route === undefined || urls.length === 0) {
    return { models: [], chatUrl: undefined, requests: [] };
  }
  const chatUrl = url + route.path;
  const isDemo = modelUrl !== undefined && urls.some((each) => sameHost(each, modelUrl));
  // The model ids of another server are unknown here; GET /v1/models lists them later.
  const requests = isDemo ? [proposeChat(chatUrl, key, modelId)] : [];
  return { models: isDemo ? undefined : urls.map((each) => new URL(each).host), chatUrl, requests };
}

async function prepareStream(
  { config, url, evidence }: Gateway,
  key: string,
  { modelUrl, modelId }: Demo,
): Promise<SimulatedStream | undefined> {
  const route = config.routes.find(({ to }) => to.name === "confidential-stream");
  const network = config.networks.find(({ kind }) => kind === "openai");
  const provider = await evidence.provider("simulated");
  if (route === undefined || network === undefined || !isSimulated(route.to.options))
    return undefined;
  if (isFault(provider) || provider.root === undefined) return undefined;
  const { root } = provider;
  const verify = [
    `npx sluice verify ${url} --key ${key} --network ${network.name} --model ${modelId}`,
    `--termination gateway --image-hash any --allow-simulated --simulated-root ${root}`,
  ].join(" ");
  return { url: url + route.path, root, verify: modelUrl === undefined ? undefined : verify };
}

function isSimulated({ evidence }: Readonly<Record<string, unknown>>): boolean {
  return typeof evidence === "object" && evidence !== null && "kind" in evidence
    ? evidence.kind === "simulated"
    : false;
}

function upstreamUrls(config: Config, name: unknown): readonly string[] {
  return typeof name === "string" ? (upstreamIn(config, name)?.urls ?? []) : [];
}

function sameHost(one: string, other: string): boolean {
  return new URL(one).host === new URL(other).host;
}

function asJson(setUp: SetUp): object {
  const { gateway, account, nodes, rpcUrl, models, chatUrl, stream, requests } = setUp;
  return {
    version,
    url: gateway.url,
    rpc_url: rpcUrl,
    chat_url: chatUrl,
    stream_url: stream?.url,
    simulated_root: stream?.root,
    admin_url: gateway.adminUrl,
    pipelines_url: `${gateway.adminUrl}/pipelines`,
    dashboard_url: `${gateway.adminUrl}/dashboard`,
    node: nodes === undefined ? "demo" : nodes.join(", "),
    model: models === undefined ? "demo" : models.join(", "),
    workspace_id: account.workspaceId,
    key: account.key,
    key_expires_at: new Date(account.expiresAt).toISOString(),
    requests,
  };
}

function asText(setUp: SetUp): string {
  const { gateway, account, nodes, rpcUrl, models, chatUrl, stream, requests } = setUp;
  const until = new Date(account.expiresAt).toISOString().slice(0, 10);
  const node =
    nodes?.join(", ") ?? "demo node with recorded answers (set LEDGER_RPC_URL to use your own)";
  const model =
    models?.join(", ") ?? "demo model (set CONFIDENTIAL_CLASSIC_URL to use your own model server)";
  return [
    `Sluice ${version} is running.`,
    "",
    `  node RPC    ${rpcUrl ?? "pipeline.yaml has no route to the node"}`,
    `  node        ${node}`,
    `  chat        ${chatUrl ?? "pipeline.yaml has no route to a model"}`,
    ...(chatUrl === undefined ? [] : [`  models      ${model}`]),
    ...(stream === undefined ? [] : [`  encrypted   ${stream.url} (SIMULATED - NOT A TEE)`]),
    `  key         ${account.key} (valid until ${until})`,
    `  pipeline    ${gateway.adminUrl}/pipelines`,
    `  metrics     ${gateway.adminUrl}/metrics`,
    `  dashboard   ${gateway.adminUrl}/dashboard (sign in with the key)`,
    `  config      ${configLine(gateway.config)}`,
    `  data        ${shownPath(gateway.config.store.data, process.cwd())}`,
    "",
    ...(requests.length === 0 ? [] : ["Try it:", ""]),
    ...requests.flatMap(({ curl }) => [curl, ""]),
    ...(stream?.verify === undefined ? [] : [stream.verify, ""]),
    "Press Ctrl-C to stop.",
  ].join("\n");
}

function configLine({ file }: Config): string {
  const shown = shownPath(file, process.cwd());
  return file === shippedPipeline && shown === file
    ? "the file that ships with Sluice (run npx sluice init to write your own)"
    : shown;
}
