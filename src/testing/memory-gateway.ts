/** The real pipeline without a listener, with plugins that a test defines in code, and requests in memory. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../base/clock.ts";
import { parseConfig } from "../config/parse-config.ts";
import { openHostResources } from "../gateway/open-host-resources.ts";
import { Dispatcher } from "../http/dispatch.ts";
import type { Readiness } from "../http/readiness.ts";
import { openRuntime } from "../http/runtime.ts";
import { checkParsed, type ValidatedConfig } from "../pipeline/load/check-file.ts";
import { Closer, ClosingStack } from "../pipeline/load/closer.ts";
import { gatewayInfo } from "../pipeline/load/gateway-info.ts";
import { provision, type Generation } from "../pipeline/load/generation.ts";
import { shippedServices } from "../pipeline/load/modules.ts";
import { coreMetrics } from "../pipeline/observe/stats.ts";
import type { ExchangeRecord } from "../pipeline/observe/record.ts";
import type { Clock, Log, Outcome, Plugin, Service, SlotName, Slots, Threads } from "../plugin.ts";
import { StartError } from "../start-error.ts";
import { encodeRequest, MemoryResponse, type TestRequest } from "./memory-client.ts";
import { keepingLog } from "./keeping-log.ts";

export interface MemoryPipeline {
  /** The content of pipeline.yaml, as a value. */
  readonly file: object;
  readonly plugins: ReadonlyMap<string, Plugin>;
}

export interface MemoryGatewayOptions extends MemoryPipeline {
  readonly clock: Clock;
  readonly env?: Readonly<Record<string, string>>;
  readonly path: string;
  readonly slots?: readonly SlotName[];
  /** The threads of the process, of which this gateway is one. Default: the process has one thread. */
  readonly threads?: Threads;
  readonly without?: readonly string[];
}

/** How the gateway answered a request, and how the exchange ended. */
export interface TestAnswer {
  /** 0 if no response was sent, for example because the client left. */
  readonly status: number;
  /** The headers by name in lower case. The values of a repeated header are joined with commas. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly bytes: Buffer;
  readonly outcome: Outcome;
  readonly code: string | undefined;
  /** The values of the slots that the plugin sets. */
  readonly slots: Readonly<Partial<Slots>>;
  readonly facts: ExchangeRecord["facts"];
  json(): unknown;
}

export interface RunningRequest {
  readonly answer: Promise<TestAnswer>;
  leave(): void;
  readonly response: MemoryResponse;
}

export interface MemoryGateway extends AsyncDisposable {
  readonly generation: Generation;
  /** Log lines as `message {fields}`. */
  readonly lines: readonly string[];
  forgetLines(): void;
  begin(request: TestRequest): RunningRequest;
  readonly running: number;
  /** Starts a listener for WebSockets on loopback. Returns its address, which begins with `ws:`. */
  listen(): Promise<string>;
  goAway(): void;
  /** Loads another pipeline, as a reload does. Resolves when the plugins that are no longer used have stopped. */
  reload(pipeline: MemoryPipeline): Promise<void>;
  /** Reloads as if the code of this plugin had changed: it is started again with the same options. */
  restart(plugin: Plugin): Promise<void>;
}

/** Throws StartError if the pipeline does not start. Dispose of the gateway to stop it and remove its data folder. */
export async function openMemoryGateway(options: MemoryGatewayOptions): Promise<MemoryGateway> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
  const lines: string[] = [];
  const log = keepingLog(lines);
  // The test may never move its clock, so the stop has limits in real time.
  const stack = new ClosingStack(new Closer({ clock: systemClock, log }));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  try {
    return await assemble(options, folder, log, lines, stack);
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

async function assemble(
  options: MemoryGatewayOptions,
  folder: string,
  log: Log,
  lines: string[],
  stack: ClosingStack,
): Promise<MemoryGateway> {
  const { clock, env = {}, path, slots = [], threads, without = [] } = options;
  // One list for all loads, because the schema of the file is compiled once per list.
  const all = await shippedServices();
  const isReplaced = all.some(({ name }) => options.plugins.has(name));
  const shipped = isReplaced ? all.filter(({ name }) => !options.plugins.has(name)) : all;
  const load = (pipeline: MemoryPipeline): Promise<ValidatedConfig> =>
    validated(pipeline, folder, env, { shipped, without });
  const first = await load(options);
  let loaded = first;
  const waiting = new Map<ExchangeRecord, () => void>();
  const settled = (record: ExchangeRecord): void => waiting.get(record)?.();
  const observers = new Set([settled]);
  const info = gatewayInfo(env, observers, () => undefined);
  const resources = await openHostResources(
    first.config,
    { clock, log, gateway: info, threads },
    stack,
  );
  const core = coreMetrics(resources.metrics);
  const start = async (config: ValidatedConfig, previous?: Generation): Promise<Generation> => {
    const { generation, faults } = await provision(config, resources, core, previous, true);
    if (generation === undefined) throw new StartError(faults);
    return generation;
  };
  let current = await start(first);
  stack.defer(() => current.retire(stack.closer));
  const { server } = first.config;
  const runtime = stack.use(openRuntime({ ...resources, server, observers }));
  const readiness = (): Readiness => ({ ready: true, checks: {} });
  const dispatch = new Dispatcher({ generation: current, clock, readiness }, runtime);
  stack.use(dispatch.webSockets);
  const swap = async (): Promise<void> => {
    const old = current;
    current = await start(loaded, old);
    current.update();
    dispatch.swap(current);
    await old.retire();
  };
  return {
    get generation() {
      return current;
    },
    lines,
    forgetLines: () => void (lines.length = 0),
    begin(request) {
      const { head, body } = encodeRequest(request, path);
      const response = new MemoryResponse();
      const { promise, resolve } = Promise.withResolvers<TestAnswer>();
      // The exchange begins its response before any of its hooks runs.
      response.onBegin = ({ record }) =>
        waiting.set(record, () => {
          waiting.delete(record);
          resolve(answerOf(response, record, slots));
        });
      dispatch.serve(head, response, body);
      return { answer: promise, leave: () => response.destroy(), response };
    },
    get running() {
      return dispatch.running;
    },
    listen: () => listenForUpgrades(dispatch, stack),
    goAway: () => dispatch.webSockets.goAway(),
    async reload(pipeline) {
      loaded = await load(pipeline);
      await swap();
    },
    async restart(plugin) {
      const { plugins, ...others } = loaded;
      loaded = { ...others, plugins: new Map([...plugins, [plugin.name, { ...plugin }]]) };
      await swap();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function listenForUpgrades(dispatch: Dispatcher, stack: ClosingStack): Promise<string> {
  const server = createServer((_, response) => response.destroy());
  server.on("upgrade", (request, socket: Socket, head) => dispatch.upgrade(request, socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stack.defer(async () => {
    dispatch.webSockets.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  // A listening TCP server has an AddressInfo. Only pipes have a string.
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Checks the pipeline in the same way as a file. JSON is YAML, and `${` is a placeholder in YAML only. */
async function validated(
  { file, plugins }: MemoryPipeline,
  folder: string,
  env: Readonly<Record<string, string>>,
  {
    shipped,
    without,
  }: { readonly shipped: readonly Service<never>[]; readonly without: readonly string[] },
): Promise<ValidatedConfig> {
  const whole = { version: 1, store: { data: join(folder, "data") }, ...file };
  const text = JSON.stringify(whole).replaceAll("${", () => "$${");
  const parsed = parseConfig(text, join(folder, "pipeline.yaml"), env, shipped);
  const checked = await checkParsed(parsed, { given: plugins, without, onlyUsed: true });
  if (checked.validated === undefined) throw new StartError(checked.faults);
  return checked.validated;
}

function answerOf(
  response: MemoryResponse,
  record: ExchangeRecord,
  slots: readonly SlotName[],
): TestAnswer {
  const bytes = Buffer.concat(response.chunks);
  const values = slots.map((slot) => [slot, response.exchange?.peek(slot)]);
  const body = bytes.toString();
  return {
    status: response.status,
    headers: response.headers,
    body,
    bytes,
    outcome: record.outcome ?? "complete",
    code: record.code,
    slots: Object.fromEntries(values) as Partial<Slots>,
    facts: record.facts,
    json: () => JSON.parse(body) as unknown,
  };
}
