/**
 * Whole gateways on one store, for suites that see nothing but services, HTTP and commands. A suite does not know how
 * the store works. The wall clock of the gateways and of the store stands still until the suite moves it; timers run in
 * real time.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { parseArgs } from "node:util";
import type { KeyPrincipal, Accounts, Metering, NewKey, PlanName } from "sluice-gateway/services";
import billing from "../../plugins/billing/module.ts";
import { startGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { Clock } from "../../src/plugin.ts";
import { createSeal } from "../../src/store/seal.ts";
import { upgrade } from "../plugins/billing/shipping/fixture.ts";
import { runSql } from "../store/servers.ts";
import { createUpgradedDatabase } from "../store/upgraded-database.ts";
import { temporaryFolder } from "../store/folder.ts";
import { silentLog } from "../test-log.ts";

export interface ContractGateway {
  readonly accounts: Accounts;
  readonly metering: Metering;
  readonly url: string;
  readonly adminUrl: string;
}

export interface StoreGateways {
  readonly one: ContractGateway;
  /** The same gateway as `one` if only one gateway can use the store. */
  readonly other: ContractGateway;
  /** Time of the gateways and of the store, in milliseconds since 1970. */
  readonly now: () => number;
  /** Stops all gateways, lets time pass for them and for the store, and starts them again. */
  readonly pass: (ms: number) => Promise<void>;
  readonly run: (...argv: readonly string[]) => Promise<CommandOutput>;
}

export interface CommandOutput {
  readonly code: number;
  readonly out: readonly string[];
  readonly err: readonly string[];
}

export interface WantedGateways {
  readonly sinkUrl?: string;
  readonly at?: number;
  readonly more?: string;
}

export interface Ending {
  after(close: () => Promise<void>): void;
}

export type OpenGateways = (t: TestContext, wanted?: WantedGateways) => Promise<StoreGateways>;

export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;
/** A Tuesday in the middle of a month, an hour before noon. */
export const startAt = Date.UTC(2026, 8, 15, 11);

export const secret = "a secret of these gateways";

/** A call of `/call` costs 7 milli-CU. The plans are small, so that a test can use them up. */
const pipeline = `version: 1
secret: "${secret}"
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL:-}", replica: "\${REPLICA_NAME:-}" }
metering:
  export: { url: "\${SINK_URL:-}", every: 20ms, batch: 3, headers: { authorization: "Bearer sink" } }
plans:
  free: { rps: 100000, includedCu: 1 }
  developer: { rps: 100000, includedCu: 2, overageUsdPerCu: "0.001" }
  startup: { rps: 100000, includedCu: 5, overageUsdPerCu: "0.001" }
  enterprise: { rps: 100000, includedCu: 1000 }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 7 } }]
    to: discovery
`;

interface StoreOfGateways {
  readonly names: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Called before the first gateway starts, and each time that the clock has moved. */
  readonly setTime: (now: number) => Promise<void>;
}

/** Starts gateways on an existing store: `folder` has a data folder `data`, or `databaseUrl` is the URL of a database. */
export async function openGatewaysOn(
  t: Ending,
  folder: string,
  store: StoreOfGateways,
  { sinkUrl, at = startAt, more = "" }: WantedGateways = {},
): Promise<StoreGateways> {
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline + more);
  const env = {
    PORT: "0",
    ADMIN_PORT: "0",
    DATA_DIR: join(folder, "data"),
    ...(sinkUrl !== undefined && { SINK_URL: sinkUrl }),
    ...store.env,
  };
  let time = at;
  const clock: Clock = { ...systemClock, now: () => time };
  const running: Gateway[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((gateway) => gateway.stop()));
  };
  t.after(stop);
  const start = async (): Promise<void> => {
    await store.setTime(time);
    for (const name of store.names) {
      const options = { configFile, env: { ...env, REPLICA_NAME: name }, log: silentLog, clock };
      running.push(await startGateway({ ...options, watch: false, drainDelaySeconds: 0 }));
    }
  };
  await start();
  return {
    get one() {
      return parts(running[0]);
    },
    get other() {
      return parts(running.at(-1));
    },
    now: () => time,
    async pass(ms) {
      await stop();
      time += ms;
      await start();
    },
    run: (...argv) => runCommand(configFile, env, argv),
  };
}

function parts(gateway: Gateway | undefined): ContractGateway {
  const accounts = gateway?.use("accounts");
  const metering = gateway?.use("metering");
  if (gateway === undefined || accounts === undefined || metering === undefined) {
    throw new Error("the gateway does not run");
  }
  return { accounts, metering, url: gateway.url, adminUrl: gateway.adminUrl };
}

async function runCommand(
  configFile: string,
  env: Readonly<Record<string, string>>,
  [name = "", ...args]: readonly string[],
): Promise<CommandOutput> {
  const commands: Partial<typeof billing.commands> = billing.commands;
  const command = await commands[name as keyof typeof billing.commands]?.load();
  if (command === undefined) throw new Error(`there is no command "${name}"`);
  const options = { ...command.options, json: { type: "boolean" as const } };
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const out: string[] = [];
  const err: string[] = [];
  const code = await command.run(
    {
      env,
      print: (line) => void out.push(line),
      printToStderr: (line) => void err.push(line),
      configFile,
      signal: new AbortController().signal,
      json: values["json"] === true,
    },
    values,
    positionals,
  );
  return { code, out, err };
}

export const embeddedStore = { names: [""], env: {}, setTime: async () => {} };

export const embeddedGateways: OpenGateways = (t, wanted) =>
  openGatewaysOn(t, temporaryFolder(t), embeddedStore, wanted);

export async function setDatabaseTime(url: string, now: number): Promise<void> {
  await runSql(
    url,
    `CREATE OR REPLACE FUNCTION sluice.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ${now}::bigint'`,
  );
}

/** `port`: the port through which the gateways connect, if it is not the one of the server. */
export function postgresStore(
  url: string,
  names: readonly string[] = ["one", "other"],
  port?: number,
): StoreOfGateways {
  const through = new URL(url);
  if (port !== undefined) through.port = String(port);
  const setTime = (now: number): Promise<void> => setDatabaseTime(url, now);
  return { names, env: { DATABASE_URL: through.href }, setTime };
}

export function upgradeDatabase(url: string): Promise<void> {
  return upgrade(url, createSeal(secret));
}

export function postgresGateways(port: () => number | undefined): OpenGateways {
  return async (t, wanted) => {
    const url = await createUpgradedDatabase(t, secret);
    const store = postgresStore(url, ["one", "other"], port());
    return openGatewaysOn(t, temporaryFolder(t), store, wanted);
  };
}

export interface KnownKey {
  readonly workspaceId: string;
  readonly keyId: string;
  readonly text: string;
}

export async function createKey(
  { one, now }: StoreGateways,
  plan: PlanName,
  wanted: Partial<NewKey> = {},
): Promise<KnownKey> {
  const { admin } = one.accounts;
  const by = { actor: "test", at: now() };
  const { id } = await admin.createWorkspace({ name: "Acme", plan }, by);
  const key = { workspaceId: id, name: "a key", environment: "dev", ...wanted } as const;
  const issued = await admin.createKey({ capabilities: admin.defaultCapabilities, ...key }, by);
  if ("failed" in issued) throw new Error(issued.message);
  return { workspaceId: id, keyId: issued.key.id, text: issued.text };
}

export async function principalOf(
  { accounts }: ContractGateway,
  { text }: Pick<KnownKey, "text">,
): Promise<KeyPrincipal> {
  const caller = await accounts.identify(`Bearer ${text}`);
  if (caller.kind !== "key") throw new Error(`the caller is ${caller.kind}`);
  return caller;
}

type Lines = Parameters<
  Extract<Awaited<ReturnType<Metering["reserve"]>>, { kind: "reserved" }>["settle"]
>[0];
type About = Parameters<Metering["reserve"]>[2];

/** Reserves the cost of the lines and charges them. Throws if the credit is refused. */
export async function charge(
  gateway: ContractGateway,
  key: Pick<KnownKey, "text">,
  lines: Lines,
  about: Partial<About> = {},
): Promise<void> {
  const costMilliCu = lines.reduce((sum, line) => sum + line.costMilliCu, 0);
  const reserved = { requestId: "req-1", surface: lines[0]?.surface ?? "", ...about };
  const principal = await principalOf(gateway, key);
  const taken = await gateway.metering.reserve(principal, costMilliCu, reserved);
  if (taken.kind !== "reserved") throw new Error(`${taken.kind} instead of reserved`);
  await taken.settle(lines);
}

export const iso = (time: number): string => new Date(time).toISOString();

export async function metric({ adminUrl }: ContractGateway, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(text.match(new RegExp(`^${name} (.*)$`, "m"))?.[1]);
}
