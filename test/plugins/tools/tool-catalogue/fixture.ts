/** The service `tool-catalogue` with a manual clock, a caller whose account records its operations, and small tools. */
import assert from "node:assert/strict";
import type { Claims, Log, ServiceContext, ToolsHooks } from "sluice-gateway/plugin";
import type {
  Capability,
  Charge,
  ChargePart,
  Tool,
  ToolCaller,
  ToolOutcome,
  Tools,
} from "sluice-gateway/services";
import toolCatalogue from "../../../../plugins/tools/tool-catalogue/index.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/base/metrics.ts";
import { pluginCounts } from "../../../../src/pipeline/observe/plugin-counts.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { fakeHost, keyPrincipal } from "../../fakes.ts";

/** The operations on the account of one exchange, in order: `open 100`, `settle tool 100`, `release 100`. */
export interface FakeCharge extends Charge {
  readonly log: string[];
  /** Remaining credit in milli-CU. */
  credit: number;
  /** The journal cannot be written. */
  unavailable: boolean;
}

export function fakeCharge(credit: number = Number.MAX_SAFE_INTEGER): FakeCharge {
  let used: number | undefined;
  const log: string[] = [];
  const never = (): never => {
    throw new Error("tools open parts of a charge");
  };
  const charge: FakeCharge = {
    log,
    credit,
    unavailable: false,
    reserve: never,
    settle: never,
    get usedMilliCu() {
      return used;
    },
    open(costMilliCu) {
      if (charge.unavailable) return { kind: "unavailable" };
      if (costMilliCu > charge.credit) {
        log.push(`refuse ${costMilliCu}`);
        return { kind: "refused", window: "24h", usedMilliCu: 7, limitMilliCu: 8 };
      }
      log.push(`open ${costMilliCu}`);
      charge.credit -= costMilliCu;
      let ended = false;
      const end = (): void => {
        if (ended) throw new Error("a part ends once");
        ended = true;
      };
      const part: ChargePart = {
        reservedMilliCu: costMilliCu,
        written: () => Promise.resolve(undefined),
        settle(lines) {
          end();
          for (const line of lines) {
            used = (used ?? 0) + line.costMilliCu;
            log.push(`settle ${line.method} ${line.costMilliCu}`);
          }
        },
        release() {
          end();
          charge.credit += costMilliCu;
          log.push(`release ${costMilliCu}`);
        },
      };
      return part;
    },
  };
  return charge;
}

export interface Caller extends ToolCaller {
  readonly charge: FakeCharge;
  /** The settled charges, as `method costMilliCu`. */
  readonly charged: readonly string[];
  /** Number of parts that are neither settled nor released. */
  readonly open: () => number;
  readonly signal: AbortSignal;
  readonly leaves: () => void;
}

interface WantedCaller extends Partial<Omit<ToolCaller, "signal">> {
  readonly signal?: AbortSignal;
  readonly credit?: number;
  readonly keyId?: string;
  readonly capabilities?: readonly Capability[];
}

export function caller(more: WantedCaller = {}): Caller {
  const { credit, keyId = "key_1", capabilities = [], ...rest } = more;
  const aborter = new AbortController();
  const charge = fakeCharge(credit);
  const logged = (what: string): string[] => charge.log.filter((line) => line.startsWith(what));
  return {
    principal: keyPrincipal({ id: keyId, capabilities }),
    requestId: "r1",
    signal: aborter.signal,
    leaves: () => aborter.abort(),
    ...rest,
    charge,
    get charged() {
      return logged("settle ").map((line) => line.slice("settle ".length));
    },
    open: () => logged("open ").length - logged("settle ").length - logged("release ").length,
  };
}

export function toolCaller(more: WantedCaller = {}): Caller {
  return caller({ capabilities: ["ledger:read", "ledger:write"], ...more });
}

export function tool(more: Partial<Tool<never>> & { readonly name?: string } = {}): Tool<never> {
  return {
    name: "echo",
    description: "Answers its input.",
    inputSchema: { type: "object" },
    price: 100,
    capability: undefined,
    call: (input) => ({ ok: true, value: input }),
    ...more,
  };
}

export interface Bench {
  readonly metrics: RenderedMetrics;
  readonly catalogue: Tools;
  readonly clock: ManualClock;
  readonly problems: readonly string[];
  readonly errors: string[];
  readonly warnings: readonly string[];
  readonly claimed: Set<string>;
  readonly call: (name: string, input: unknown, by?: ToolCaller) => Promise<ToolOutcome>;
}

interface Surroundings {
  readonly clock?: ManualClock;
  readonly claim?: Claims["claim"];
}

/** The service keeps nothing during a reload, and has no options. */
const unusedContext: ServiceContext = {
  keep: (_, open) => open(),
  isDefault: () => false,
};

export async function startCatalogue(
  plugins: Readonly<Record<string, ToolsHooks>>,
  { clock = manualClock(), claim }: Surroundings = {},
): Promise<Bench> {
  const errors: string[] = [];
  const warnings: string[] = [];
  const problems: string[] = [];
  const claimed = new Set<string>();
  const log: Log = {
    debug() {},
    info() {},
    warn: (fields, message) => void warnings.push(`${message} ${JSON.stringify(fields)}`),
    error: (fields, message) => void errors.push(`${message} ${JSON.stringify(fields)}`),
    child: () => log,
  };
  const metrics = createMetrics();
  const claims: Claims = {
    now: () => clock.now(),
    claim: claim ?? (async (id) => !claimed.has(id) && claimed.add(id).has(id)),
    end: () => Promise.resolve(),
    hasEnded: () => false,
  };
  const tools = Object.entries(plugins).map(([plugin, hooks]) => ({
    plugin,
    hooks,
    reportInvalid: (problem: string) => void problems.push(problem),
    counts: pluginCounts({ name: plugin, kind: "tools" }, { metrics, clock }),
  }));
  const host = fakeHost({ clock, log, metrics, claims }, { tools });
  const { service: catalogue } = await toolCatalogue.start({}, host, unusedContext);
  const call: Bench["call"] = async (name, input, by = caller()) => catalogue.call(name, input, by);
  return { metrics, catalogue, clock, problems, errors, warnings, claimed, call };
}

export async function bench(...tools: Tool<never>[]): Promise<Bench> {
  const started = await startCatalogue({ acme: { tools } });
  assert.deepEqual(started.problems, []);
  return started;
}

/** Lets every promise that can settle do so. */
export async function settled(): Promise<void> {
  await new Promise(setImmediate);
}
