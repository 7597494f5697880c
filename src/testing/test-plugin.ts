/** Tests of one plugin without a whole gateway: the real pipeline, with this plugin and stand-ins for everything else. */
import type { BackendStatus } from "../contract/gateway.ts";
import {
  defineService,
  defineStep,
  defineSurface,
  type Environment,
  type Exchange,
  type Plugin,
  type Reply,
  type Service,
  type ServiceHooks,
  type ServiceName,
  type ServiceTypes,
  type SlotName,
  type Slots,
  type Step,
  type Surface,
  type SurfaceHooks,
} from "../plugin.ts";
import { shippedPlugins } from "../pipeline/load/load.ts";
import { manualClock, type ManualClock } from "./clock.ts";
import type { TestRequest } from "./memory-client.ts";
import {
  openMemoryGateway,
  type MemoryPipeline,
  type RunningRequest,
  type TestAnswer,
} from "./memory-gateway.ts";

/** Options, slots and other surroundings that a plugin needs in a test. All members are optional. */
export interface PluginExample<Options = unknown> {
  readonly options?: Partial<Options>;
  /** The slots that the plugin reads, with their values. */
  readonly slots?: Partial<Slots>;
  /** Stand-ins with the members that the plugin calls. Other shipped services run as they are. */
  readonly services?: { readonly [Name in ServiceName]?: Partial<ServiceTypes[Name]> };
  /** A request that the plugin lets pass or answers. It is sent if a test names no other (default: `GET`). */
  readonly request?: TestRequest;
  /** Path of the route (default `/*`). */
  readonly path?: string;
  /** The inputs with which the contract suite calls the tools of the plugin, by name (default `{}`). */
  readonly inputs?: Readonly<Record<string, unknown>>;
  /** Uses the service as other plugins do. The contract suite calls it, and it must settle; it may reject. */
  readonly use?: (service: never) => unknown;
  readonly environment?: Environment;
  /** Default: a clock at 2026-01-15 12:00 UTC. */
  readonly clock?: ManualClock;
}

export interface StepExample<Options = unknown> extends PluginExample<Options> {
  /** Answers the requests that the step lets pass. Default: 200 with the body `ok`. */
  readonly surface?: SurfaceHooks | ((x: Exchange) => Reply);
  readonly mode?: "enforce" | "shadow";
  readonly timeoutMs?: number;
}

/** A plugin that runs. Dispose of it to stop it. */
export interface TestedPlugin<Options = unknown> extends AsyncDisposable {
  readonly clock: ManualClock;
  /** The log lines, as `message {fields}`, with the causes of errors. */
  readonly lines: readonly string[];
  /** Loads the plugin with other options, as a reload does. */
  reload(options: Partial<Options>): Promise<void>;
}

export interface TestedHandler<Options = unknown> extends TestedPlugin<Options> {
  /** Sends a request. Resolves when the exchange has settled. */
  send(request?: TestRequest): Promise<TestAnswer>;
  /** Sends a request that the test observes while it runs, or whose client leaves. */
  begin(request?: TestRequest): RunningRequest;
}

export interface TestedService<Options, Provided> extends TestedPlugin<Options> {
  /** The service, as other plugins get it from `host.use`. */
  readonly service: Provided;
  /** Returns what the service reports to `/readyz`. */
  ready(): true | string | Readonly<Record<string, true | string>>;
  backends(): readonly BackendStatus[];
}

/** Starts a step on a route of its own. Throws StartError if its manifest, its options or its start has a fault. */
export function testStep<Options, State>(
  step: Step<Options, State>,
  example: StepExample<Options> = {},
): Promise<TestedHandler<Options>> {
  return startTested(step, example);
}

/** Starts a surface on a route of its own. Throws StartError like `testStep`. */
export function testSurface<Options>(
  surface: Surface<Options>,
  example: PluginExample<Options> = {},
): Promise<TestedHandler<Options>> {
  return startTested(surface, example);
}

/** Starts a service. Throws StartError like `testStep`. */
export async function testService<Options, Provided>(
  service: Service<Options, Provided>,
  example: PluginExample<Options> = {},
): Promise<TestedService<Options, Provided>> {
  const tested = await startTested(service, example);
  return Object.defineProperties(tested, {
    // A reload may have replaced the service.
    service: { get: () => tested.hooksOf(service.name)?.service as Provided },
    ready: { value: () => tested.hooksOf(service.name)?.ready?.() ?? true },
    backends: { value: () => tested.hooksOf(service.name)?.backends?.() ?? [] },
  }) as TestedService<Options, Provided> & typeof tested;
}

interface Started extends TestedHandler {
  hooksOf(service: string): ServiceHooks<unknown> | undefined;
}

export async function startTested(plugin: Plugin, example: StepExample): Promise<Started> {
  const { clock = manualClock(), path = "/*" } = example;
  const gateway = await openMemoryGateway({
    ...pipelineOf(plugin, example),
    clock,
    path: requestPath(path),
    slots: slotsOf(plugin),
  });
  return {
    clock,
    lines: gateway.lines,
    send: (request = example.request ?? {}) => gateway.begin(request).answer,
    begin: (request = example.request ?? {}) => gateway.begin(request),
    hooksOf: (name) => gateway.generation.services.get(name),
    reload: (options) => gateway.reload(pipelineOf(plugin, { ...example, options })),
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

export function requestPath(path: string): string {
  return path.replaceAll(/[{}*]/g, "");
}

/** Returns the slots that the plugin sets. */
export function slotsOf(plugin: Plugin): SlotName[] {
  const provided = "provides" in plugin ? (plugin.provides ?? {}) : {};
  // Any other name is a fault of the manifest.
  return Object.keys(provided) as SlotName[];
}

const slotSetter = "test-slots";
const surfaceName = "test-surface";

export function pipelineOf(plugin: Plugin, example: StepExample): MemoryPipeline {
  const { options = {}, slots = {}, services = {}, path = "/*", environment = "dev" } = example;
  // A service with sections ships with Sluice, and its options are the sections.
  const hasSections = plugin.kind === "service" && plugin.sections !== undefined;
  const plugins = new Map<string, Plugin>(hasSections ? [] : [[plugin.name, plugin]]);
  for (const [name, service] of Object.entries(services)) {
    plugins.set(name, standIn(name, service));
  }
  const isHandler = plugin.kind === "step" || plugin.kind === "surface";
  const run: object[] = [];
  if (isHandler && Object.keys(slots).length > 0) {
    plugins.set(slotSetter, settingSlots(slots));
    run.push({ [slotSetter]: {} });
  }
  const { mode, timeoutMs } = example;
  if (plugin.kind === "step") {
    run.push({
      [plugin.name]: options,
      ...(mode !== undefined && { mode }),
      ...(timeoutMs !== undefined && { timeoutMs }),
    });
  }
  if (plugin.kind !== "surface") plugins.set(surfaceName, below(plugin, example.surface));
  const to = plugin.kind === "surface" ? { [plugin.name]: options } : surfaceName;
  const websocket = plugin.kind === "surface" && plugin.websocket === true;
  const shipped = shippedPlugins();
  const named = [...plugins.keys()].filter((name) => !shipped.has(name) && !(name in services));
  return {
    plugins,
    file: {
      environment,
      // Without it, each gateway would write a secret to its disk.
      secret: "the secret of a test",
      plugins: Object.fromEntries(named.map((name) => [name, `./${name}`])),
      ...(plugin.kind === "service" && (hasSections ? options : { [plugin.name]: options })),
      ...(plugin.kind === "tools" && { tools: [{ [plugin.name]: options }] }),
      routes: [{ path, run, to, ...(websocket && { websocket }) }],
    },
  };
}

function standIn(name: string, service: unknown): Plugin {
  return defineService({
    name,
    description: "A stand-in of a test.",
    start: () => ({ service }),
  });
}

function settingSlots(slots: Partial<Slots>): Plugin {
  const names = Object.keys(slots) as SlotName[];
  return defineStep({
    name: slotSetter,
    description: "Sets the slots of a test.",
    provides: Object.fromEntries(names.map((name) => [name, "requestHeaders"])),
    start: () => ({
      requestHeaders(x) {
        for (const name of names) {
          const value = slots[name];
          if (value !== undefined) x.set(name, value);
        }
      },
    }),
  });
}

/** A service must be in use, so the surface uses the one that is tested. */
function below(plugin: Plugin, surface: StepExample["surface"]): Plugin {
  const fallback = (): Reply => ({
    status: 200,
    headers: ["content-type", "text/plain"],
    body: "ok",
  });
  const hooks: SurfaceHooks =
    typeof surface === "object" ? surface : { answer: surface ?? fallback };
  return defineSurface({
    name: surfaceName,
    description: "The surface of a test.",
    // TypeScript does not know the names of the services that tests define.
    uses: plugin.kind === "service" ? [plugin.name as ServiceName] : [],
    start: () => hooks,
  });
}
