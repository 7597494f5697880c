/** Fakes of what a step sees, so that its hooks can be tested without a gateway around them. */
import {
  setPrincipal,
  type Accounts,
  type ApiKey,
  type Capability,
  type KeyPrincipal,
  type Meter,
  type Metering,
  type Networks,
  type Principal,
  type Tools,
} from "sluice-gateway/services";
import { HeldBytes } from "../../src/memory/held-bytes.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { shippedModules } from "../../src/pipeline/load/modules.ts";
import type {
  ComputeOutcome,
  Exchange,
  Host,
  NotedFacts,
  Reply,
  RequestHead,
  ServiceName,
  ServiceTypes,
  SlotName,
  Slots,
} from "../../src/plugin.ts";
import { noEntries, storageOf } from "../../src/store/plugin-entries.ts";
import { createSeal } from "../../src/store/seal.ts";
import { noSession } from "../../src/store/session.ts";
import { noSql } from "../../src/store/sql/work.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { silentLog } from "../test-log.ts";

// Declares the codes of the modules, as a gateway does when it starts.
await shippedModules();

const notRun = (): Promise<ComputeOutcome> => Promise.resolve({ ok: false, reason: "busy" });

export const noTools: Tools = {
  list: [],
  resources: [],
  resourceTemplates: [],
  prompts: [],
  call: () => Promise.reject(new Error("no tools in this test")),
};

export const missing: Principal = { kind: "anonymous", reason: "missing authorization header" };
export const unknownKey: Principal = { kind: "anonymous", reason: "unauthorized" };

export const noNetworks: Networks = {
  names: [],
  open: [],
  models: () => [],
  unread: () => false,
  override: () => Promise.resolve(undefined),
  find: () => undefined,
  addKind() {},
};

const unavailable = { kind: "unavailable" } as const;
const notAvailable = Promise.resolve(unavailable);

/** The service `accounts`: nobody has a key, and nothing can be read or written. */
export function fakeAccounts(more: Partial<Accounts> = {}): Accounts {
  return {
    identify: () => missing,
    identifyKey: () => missing,
    identifyAgain: () => missing,
    identifyClaims: () => missing,
    setPrincipal,
    tickets: {
      issue: () => ({ ticket: "", expiresAt: 0 }),
      redeem: () => Promise.resolve({ principal: missing, terms: undefined }),
    },
    workspaces: {
      find: () => notAvailable,
      upgrade: () => notAvailable,
      downgrade: () => notAvailable,
      cancelDowngrade: () => notAvailable,
      purchase: () => notAvailable,
      changes: () => notAvailable,
      usage: () => notAvailable,
    },
    idempotency: { take: () => notAvailable, once: () => notAvailable },
    get admin(): never {
      throw new Error("there is no database in this test");
    },
    overrides: () => new Map(),
    replaceOverrides: () => Promise.resolve(false),
    ...more,
  };
}

export function fakeMetering(meter: Partial<Meter>): Metering {
  const empty = {
    usedMilliCu: 0,
    limitMilliCu: undefined,
    freesAt: undefined,
    roomAt: undefined,
    emptyAt: undefined,
  };
  return {
    reserve: () => unavailable,
    reserveWithoutLimit: () => unavailable,
    outageMs: undefined,
    purchasedLeft: () => 0,
    keyWindows: () => ({ day: empty, month: empty, openMilliCu: 0 }),
    workspaceUsage: () => ({
      periodStart: 0,
      includedMilliCu: 0,
      purchasedMilliCu: 0,
      overageMilliCu: 0,
      openMilliCu: 0,
    }),
    usage: {
      report: () => Promise.resolve({ kind: "unavailable" }),
      spend: () => Promise.resolve({ kind: "unavailable" }),
    },
    ...meter,
  };
}

/** `services`: what `use` returns, by name. */
export function fakeHost(more: Partial<Host> = {}, services: Partial<ServiceTypes> = {}): Host {
  const all: Partial<ServiceTypes> = {
    "tool-catalogue": noTools,
    routes: [],
    networks: noNetworks,
    accounts: fakeAccounts(),
    ...services,
  };
  const { clock = manualClock() } = more;
  return {
    environment: "dev",
    mode: "enforce",
    strict: false,
    log: silentLog,
    clock,
    metrics: createMetrics(),
    threads: undefined,
    store: {
      folder: "/data",
      sql: () => noSql,
      session: noSession,
      postgres: undefined,
      redis: undefined,
      replicas: undefined,
    },
    compute: { run: notRun, background: { run: notRun } },
    seal: createSeal("test"),
    claims: {
      now: () => clock.now(),
      claim: () => Promise.resolve(true),
      end: () => Promise.resolve(),
      hasEnded: () => false,
    },
    memory: new HeldBytes(Infinity, createMetrics()),
    storage: storageOf("test", noEntries),
    use<Name extends ServiceName>(name: Name, options?: { ifInstalled: true }) {
      const service = all[name];
      if (service === undefined && options === undefined) {
        throw new Error(`there is no service "${name}" in this test`);
      }
      return service as ServiceTypes[Name];
    },
    variable: () => undefined,
    upstream() {
      throw new Error("there is no upstream in this test");
    },
    every: () => ({ [Symbol.dispose]() {} }),
    version: "1.2.3",
    folder: "/",
    ...more,
  };
}

/** A key, by default of the plan Free. */
export function keyPrincipal(
  more: { id?: string; rps?: number; capabilities?: readonly Capability[] } = {},
): KeyPrincipal {
  const { id = "key_1", rps = 2, capabilities = [] } = more;
  const key: ApiKey = {
    id,
    workspaceId: "ws_1",
    name: "test",
    environment: "dev",
    capabilities: new Set(capabilities),
    rpsLimit: undefined,
    cuLimit24hMilli: undefined,
    cuLimit30dMilli: undefined,
    allowedAddresses: undefined,
    createdAt: 0,
    expiresAt: undefined,
    revokedAt: undefined,
  };
  return {
    kind: "key",
    key,
    workspace: {
      id: "ws_1",
      name: "test",
      plan: "free",
      pendingPlan: undefined,
      pendingPlanAt: undefined,
      purchasedTotalMilliCu: 0,
      overageLimitCuMilli: undefined,
      createdAt: 0,
    },
    plan: { name: "free", rps, includedMilliCu: 0, overageUsdPerCu: undefined, maxKeys: 10 },
    rps,
  };
}

export interface FakeRequest extends Partial<RequestHead> {
  readonly slots?: Partial<Slots>;
  readonly facts?: NotedFacts;
  readonly body?: string;
  readonly arrivedAt?: number;
  readonly arrivedMonotonic?: number;
  readonly sent?: Partial<Exchange["sent"]>;
}

export function fakeExchange(options: FakeRequest = {}): Exchange {
  const {
    slots: given,
    facts: noted,
    body,
    arrivedAt = 0,
    arrivedMonotonic = 0,
    sent,
    ...request
  } = options;
  const slots: Partial<Slots> = { ...given };
  const facts: NotedFacts = { ...noted };
  return {
    request: {
      method: "GET",
      path: "/a",
      target: "/a",
      query: "",
      headers: {},
      rawHeaders: [],
      params: {},
      address: "192.0.2.1",
      peer: { address: "192.0.2.1", trusted: false },
      hasBody: body !== undefined,
      ...request,
    },
    route: { path: "/{any}", surface: "test" },
    arrivedAt,
    arrivedMonotonic,
    get<S extends SlotName>(slot: S): Slots[S] {
      const value = slots[slot];
      if (value === undefined) throw new Error(`slot ${slot} is not set`);
      return value;
    },
    peek: (slot) => slots[slot],
    set(slot, value) {
      if (slots[slot] !== undefined) throw new Error(`slot ${slot} is set twice`);
      slots[slot] = value;
    },
    setUpstreamHeader() {},
    upstreamHeaders: [],
    aborted: false,
    note(name, value) {
      facts[name] = value;
    },
    facts,
    body: body === undefined ? undefined : Buffer.from(body),
    replaceBody: unused,
    dropBody: unused,
    json() {
      try {
        return { ok: true, value: JSON.parse(body ?? "") };
      } catch {
        return { ok: false };
      }
    },
    bodyStream: unused,
    signal: new AbortController().signal,
    onAbort: undefined,
    clientLeft: false,
    stream: unused,
    accept: unused,
    admit: () => undefined,
    limitReached() {},
    called() {},
    calls: undefined,
    informational: unused,
    sent: { status: 200, bodyBytes: 0, code: undefined, ...sent },
  };
}

function unused(): never {
  throw new Error("a step has no business here");
}

export function bodyOf(reply: Reply | void): Record<string, unknown> {
  // Refusals are JSON objects in the canonical envelope.
  return JSON.parse(String(reply?.body)) as Record<string, unknown>;
}
