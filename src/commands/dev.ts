/** `sluice dev`: the gateway with a demo node and a demo model, a key, and requests to try. `npm start` runs it. */
import { resolve } from "node:path";
import type { Config } from "../config/config.ts";
import { shownPath } from "../config/fault.ts";
import { readConfig } from "../config/read.ts";
import { openDemoAccount, type DemoAccount } from "../demo/account.ts";
import { startDemo, type Demo } from "../demo/demo.ts";
import { headOf, proposeChat, proposeRequests, type ProposedRequest } from "../demo/requests.ts";
import { isFault } from "../confidential/fault.ts";
import { createLog } from "../log.ts";
import { pluginModules } from "../pipeline/load.ts";
import type { Gateway } from "../server/gateway.ts";
import { version } from "../version.ts";
import type { Command, CommandContext } from "./command.ts";
import { shippedPipeline } from "./config-file.ts";
import { catchFatalErrors } from "./fatal-errors.ts";
import { drainOf, runUntilStopped, startOrComplain } from "./start.ts";

export const dev: Command = {
  summary: "run the gateway with a demo node, a demo model, a key and requests to try",
  help: `usage: sluice dev [--config FILE] [--env-file FILE] [--json]

Starts the gateway, creates a workspace named demo and a key of it, and prints requests that work. Unless LEDGER_RPC_URL
names your own node, a demo node replays recorded answers of a real runtime. Unless CONFIDENTIAL_CLASSIC_URL names your
own model server, a demo model echoes the last user message.
It runs with GATEWAY_ENV=dev only. SIGINT or SIGTERM drains and ends it.

Saving pipeline.yaml, or the code of a plugin that it names by a path, reloads it. Plugins are held to their manifests:
one that reads or sets a slot that it has not declared, or writes to the request's head, fails with an error in the log.

Without --config, SLUICE_CONFIG and ./pipeline.yaml it runs the pipeline.yaml that ships with Sluice, and keeps its data
in the working folder. sluice init writes a pipeline.yaml of your own.

The encrypted stream ends in this process. Its evidence is simulated, so it proves nothing, and clients must opt in.

LEDGER_RPC_URL   your own node: http, https, ws or wss
CONFIDENTIAL_CLASSIC_URL
                 your own models: any server that speaks OpenAI's chat completions, such as http://127.0.0.1:8000
TOKEN_USD_RATE, PRICE_PER_TOKEN_NANO
                 the price of its tokens: USD per native token, and nano native tokens per token
CONFIDENTIAL_EVIDENCE
                 who attests this process instead: auto, tdx, sev-snp or dstack
PORT             where clients connect (8080); ADMIN_PORT: dashboard, metrics and health (9090)
DATA_DIR         where accounts and charges are kept (./data)
LOG_LEVEL        of the log on standard error (warn); info logs every request

  --json   print what was started as one JSON document`,
  mayUseShippedPipeline: true,
  options: {},
  async run(context) {
    using fatal = catchFatalErrors({ destination: process.stderr, modules: pluginModules });
    await using started = new AsyncDisposableStack();
    const demo = await startDemo(context.env, started);
    const LOG_LEVEL = context.env["LOG_LEVEL"] || "warn";
    const env = { ...context.env, ...demo.env, LOG_LEVEL, ...dataFolder(context) };
    // The log goes to standard error, because standard output is for what to try. The banner comes first.
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

/** The shipped file is part of the package, so data must not be kept beside it: it is kept in the working folder. */
function dataFolder({ configFile, env }: CommandContext): { readonly DATA_DIR?: string } {
  return configFile === shippedPipeline ? { DATA_DIR: resolve(env["DATA_DIR"] || "data") } : {};
}

/** Keeps the lines of a log until it is released, then passes them to standard error. */
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
 * Starts the gateway in the environment dev only: a key that is printed on a terminal must not be valid in a
 * deployment.
 */
async function startInDevelopment(
  context: CommandContext,
  destination: HeldLog,
): Promise<Gateway | undefined> {
  // startOrComplain prints the faults of the file.
  const { config, faults } = await readConfig(context.configFile, context.env);
  if (config === undefined || faults.length > 0) return startOrComplain(context);
  if (config.environment !== "dev") {
    context.complain(
      `sluice dev prints a key, so it runs with GATEWAY_ENV=dev only, not ${config.environment}. Use sluice start.`,
    );
    return undefined;
  }
  const log = createLog({ level: config.log.level, destination });
  return startOrComplain(context, { log, strict: true });
}

/** Everything one needs to call the gateway. */
interface SetUp {
  readonly gateway: Gateway;
  readonly account: DemoAccount;
  /** The hosts of the nodes behind the gateway; undefined: the demo node. */
  readonly nodes: readonly string[] | undefined;
  /** Undefined when no route leads to the node. */
  readonly rpcUrl: string | undefined;
  /** The hosts of the model servers; undefined: the demo model. */
  readonly models: readonly string[] | undefined;
  /** Undefined when no route leads to a model. */
  readonly chatUrl: string | undefined;
  /** Undefined when no route leads to the encrypted stream, or its evidence is no simulation. */
  readonly stream: SimulatedStream | undefined;
  readonly requests: readonly ProposedRequest[];
}

interface SimulatedStream {
  readonly url: string;
  /** The test root, DER in base64. */
  readonly root: string;
  /** A command that opens a session and shows what was checked; undefined where only the demo model could be asked. */
  readonly verify: string | undefined;
}

async function prepare(gateway: Gateway, demo: Demo): Promise<SetUp> {
  const account = openDemoAccount(gateway.config.store.data, Date.now());
  const ledger = await prepareLedger(gateway, account.key, demo.nodeUrl);
  const chat = prepareChat(gateway, account.key, demo);
  // One of each kind first.
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
  // A pipeline need not use LEDGER_RPC_URL: then the demo node stands idle.
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
  // What another server calls its models is known once it has been asked: GET /v1/models.
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
  return typeof name === "string" ? (config.upstreams.get(name)?.urls ?? []) : [];
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
    nodes?.join(", ") ?? "demo node with recorded answers (LEDGER_RPC_URL names another)";
  const model = models?.join(", ") ?? "demo model (CONFIDENTIAL_CLASSIC_URL names another server)";
  return [
    `Sluice ${version} is running.`,
    "",
    `  node RPC    ${rpcUrl ?? "no route of pipeline.yaml leads to the node"}`,
    `  node        ${node}`,
    `  chat        ${chatUrl ?? "no route of pipeline.yaml leads to a model"}`,
    ...(chatUrl === undefined ? [] : [`  models      ${model}`]),
    ...(stream === undefined ? [] : [`  encrypted   ${stream.url} (SIMULATED - NOT A TEE)`]),
    `  key         ${account.key} (until ${until})`,
    `  pipeline    ${gateway.adminUrl}/pipelines`,
    `  metrics     ${gateway.adminUrl}/metrics`,
    `  dashboard   ${gateway.adminUrl}/dashboard, sign in with the key`,
    `  config      ${configLine(gateway.config)}`,
    `  data        ${shownPath(gateway.config.store.data, process.cwd())}`,
    "",
    ...(requests.length === 0 ? [] : ["Try it:", ""]),
    ...requests.flatMap(({ curl }) => [curl, ""]),
    ...(stream?.verify === undefined ? [] : [stream.verify, ""]),
    "Ctrl-C stops it.",
  ].join("\n");
}

function configLine({ file }: Config): string {
  const shown = shownPath(file, process.cwd());
  return file === shippedPipeline && shown === file
    ? "the file that ships with Sluice (npx sluice init writes your own)"
    : shown;
}
