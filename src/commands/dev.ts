/** `sluice dev`: the gateway with a demo node behind it, a key and requests to try. This is `npm start`. */
import type { Config } from "../config/config.ts";
import { readConfig } from "../config/read.ts";
import { openDemoAccount, type DemoAccount } from "../demo/account.ts";
import { startDemoNode } from "../demo/node.ts";
import { headOf, proposeRequests, type ProposedRequest } from "../demo/requests.ts";
import { createLog } from "../log.ts";
import type { Gateway } from "../server/gateway.ts";
import type { Command, CommandContext } from "./command.ts";
import { runUntilStopped, startOrComplain } from "./start.ts";

export const dev: Command = {
  summary: "run the gateway with a demo node, a key and requests to try",
  help: `usage: sluice dev [--config FILE] [--json]

Starts the gateway, makes a workspace named demo and a key of it, and prints requests that work. Behind the gateway
stands a demo node that replays recorded answers of a real runtime, unless LEDGER_RPC_URL names another node.
For GATEWAY_ENV=dev only. SIGINT or SIGTERM drains and ends it.

LEDGER_RPC_URL   your own node: http, https, ws or wss
PORT             where clients connect (8080); ADMIN_PORT: metrics and /pipelines (9090)
DATA_DIR         where accounts and charges are kept (./data beside pipeline.yaml)
LOG_LEVEL        warn unless set; info logs every request

  --json   print what was started as one JSON document`,
  options: {},
  async run(context) {
    await using started = new AsyncDisposableStack();
    const env = { ...context.env, LOG_LEVEL: context.env["LOG_LEVEL"] || "warn" };
    let demoUrl: string | undefined;
    if (!context.env["LEDGER_RPC_URL"]) {
      const node = await startDemoNode();
      started.defer(() => node.close());
      demoUrl = node.url;
      Object.assign(env, { LEDGER_RPC_URL: demoUrl });
    }
    const gateway = await startInDevelopment({ ...context, env });
    if (gateway === undefined) return 1;
    try {
      const setUp = await prepare(gateway, demoUrl);
      context.print(context.json ? JSON.stringify(asJson(setUp)) : asText(setUp));
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

/**
 * Starts the gateway unless it is meant for others: a key that is printed on a terminal has no place in a deployment. Its
 * log goes to standard error, because standard output is for what to try.
 */
async function startInDevelopment(context: CommandContext): Promise<Gateway | undefined> {
  // Faults of the file are the start's to print.
  const { config, faults } = await readConfig(context.configFile, context.env);
  if (config === undefined || faults.length > 0) return startOrComplain(context);
  if (config.environment !== "dev") {
    context.complain(
      `sluice dev prints a key, so it runs with GATEWAY_ENV=dev only, not ${config.environment}. Use sluice start.`,
    );
    return undefined;
  }
  return startOrComplain(
    context,
    createLog({ level: config.log.level, destination: process.stderr }),
  );
}

/** Everything one needs to call the gateway. */
interface SetUp {
  readonly gateway: Gateway;
  readonly account: DemoAccount;
  /** The hosts of the nodes behind the gateway; undefined: the demo node. */
  readonly nodes: readonly string[] | undefined;
  /** Undefined when no route leads to the node. */
  readonly rpcUrl: string | undefined;
  readonly requests: readonly ProposedRequest[];
}

async function prepare(gateway: Gateway, demoUrl: string | undefined): Promise<SetUp> {
  const { config, url } = gateway;
  const account = openDemoAccount(config.store.data, Date.now());
  const route = config.routes.find(({ to }) => to.name === "ledger-rpc");
  if (route === undefined) {
    return { gateway, account, nodes: [], rpcUrl: undefined, requests: [] };
  }
  const rpcUrl = url + route.path;
  const urls = upstreamUrls(config, route.to.options["upstream"]);
  // A pipeline need not use LEDGER_RPC_URL: then the demo node stands idle.
  const isDemo = demoUrl !== undefined && urls.some((each) => sameHost(each, demoUrl));
  const head = urls[0] === undefined ? undefined : await headOf(urls[0]);
  return {
    gateway,
    account,
    nodes: isDemo ? undefined : urls.map((each) => new URL(each).host),
    rpcUrl,
    requests: proposeRequests(rpcUrl, account.key, head),
  };
}

function upstreamUrls(config: Config, name: unknown): readonly string[] {
  return typeof name === "string" ? (config.upstreams.get(name)?.urls ?? []) : [];
}

function sameHost(one: string, other: string): boolean {
  return new URL(one).host === new URL(other).host;
}

function asJson({ gateway, account, nodes, rpcUrl, requests }: SetUp): object {
  return {
    url: gateway.url,
    rpc_url: rpcUrl,
    admin_url: gateway.adminUrl,
    pipelines_url: `${gateway.adminUrl}/pipelines`,
    node: nodes === undefined ? "demo" : nodes.join(", "),
    workspace_id: account.workspaceId,
    key: account.key,
    key_expires_at: new Date(account.expiresAt).toISOString(),
    requests,
  };
}

function asText({ gateway, account, nodes, rpcUrl, requests }: SetUp): string {
  const until = new Date(account.expiresAt).toISOString().slice(0, 10);
  const node =
    nodes?.join(", ") ?? "demo node with recorded answers (LEDGER_RPC_URL names another)";
  return [
    "Sluice is running.",
    "",
    `  node RPC    ${rpcUrl ?? "no route of pipeline.yaml leads to the node"}`,
    `  node        ${node}`,
    `  key         ${account.key} (until ${until})`,
    `  pipeline    ${gateway.adminUrl}/pipelines`,
    `  metrics     ${gateway.adminUrl}/metrics`,
    "",
    ...(requests.length === 0 ? [] : ["Try it:", ""]),
    ...requests.flatMap(({ curl }) => [curl, ""]),
    "Ctrl-C stops it.",
  ].join("\n");
}
