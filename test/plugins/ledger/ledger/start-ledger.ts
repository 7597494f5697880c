/** The plugin `ledger` alone, as a gateway starts it, with its service and a clock that only the test moves. */
import assert from "node:assert/strict";
import type { Ledger, LedgerAnswer } from "sluice-gateway/services";
import ledgerPlugin from "../../../../plugins/ledger/ledger/index.ts";
import { createMetrics, type RenderedMetrics } from "../../../../src/base/metrics.ts";
import type { Log } from "../../../../src/contract/log.ts";
import type { Upstream } from "../../../../src/contract/upstream.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { metricValue } from "../../../metric-value.ts";
import { withDefaults } from "../../with-defaults.ts";

type Section = Parameters<typeof ledgerPlugin.start>[0]["upstreams"];

export type LedgerOptions = Partial<Omit<Upstream, "name" | "urls">> &
  Partial<NonNullable<Section[string]>>;

export interface LogLine {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export interface NodeReport {
  /** Host and port. */
  readonly name: string;
  /** `usable`, or the reason why the node is not used. */
  readonly state: string;
  readonly best: number | undefined;
  readonly finalized: number | undefined;
  readonly oldest_state: number | undefined;
}

export interface StartedLedger extends AsyncDisposable {
  readonly ledger: Ledger;
  readonly clock: ManualClock;
  readonly lines: readonly LogLine[];
  /** Resolves when the first probe of every node has succeeded or failed. */
  readonly probed: Promise<void>;
  readonly ready: boolean;
  nodes(): readonly NodeReport[];
  readonly metrics: Pick<RenderedMetrics, "read" | "dump">;
  /** Returns the value of a series: see `metricValue`. */
  value(series: string): number | undefined;
  /** Calls a node's method, as the other plugins do. `params`: JSON text. */
  readonly call: (
    method: string,
    params?: string,
    signal?: AbortSignal,
  ) => LedgerAnswer | Promise<LedgerAnswer>;
  /** Returns the text of the answer to a call, by default to a read, or the reason why there was none. */
  outcome(method?: string, params?: string): Promise<string>;
  close(): Promise<void>;
}

const members = { options: { properties: ledgerPlugin.extends?.["upstreams"] ?? {} }, start() {} };
const defaults = withDefaults<LedgerOptions>(members, {});

export async function startLedger(
  urls: readonly string[],
  options: LedgerOptions = {},
): Promise<StartedLedger> {
  const clock = manualClock();
  const metrics = createMetrics();
  const { lines, log } = recordingLog();
  const entry = {
    name: "ledger",
    urls,
    connectMs: 1_000,
    headersMs: 3_000,
    idleMs: 2_000,
    connections: 8,
    ...defaults,
    ...options,
  };
  const upstreams = { get: () => entry, forwarder: () => undefined };
  const closing: (() => unknown)[] = [];
  const hooks = await ledgerPlugin.start(
    { upstreams: { ledger: entry } } as never,
    // The members that the plugin uses. The fakes of whole hosts load all modules.
    { clock, log, metrics, threads: undefined, use: () => upstreams } as never,
    {
      keep(_key, open, closePart) {
        const part = open();
        closing.push(() => closePart(part));
        return part;
      },
      isDefault: () => false,
    },
  );
  const ledger = hooks.service.pool("ledger");
  assert.ok(ledger !== undefined);
  const call: StartedLedger["call"] = (name, params = "[]", signal) => {
    const method = ledger.methods.get(name) ?? ledger.internal(name);
    return ledger.call(method, Buffer.from(params), signal && { signal });
  };
  const close = async (): Promise<void> => {
    for (const each of closing.splice(0)) await each();
  };
  return {
    ledger,
    clock,
    lines,
    metrics,
    value: (series) => metricValue(metrics, series),
    probed: Promise.resolve(hooks.initialized?.()),
    get ready() {
      return hooks.backends?.()[0]?.ready === true;
    },
    nodes() {
      const { details } = hooks.backends?.()[0] ?? assert.fail("the upstream is not in use");
      return (details as { readonly nodes: readonly NodeReport[] }).nodes;
    },
    call,
    async outcome(name, params = name === undefined ? '["0x01"]' : "[]") {
      const answer = await call(name ?? "state_call", params);
      return answer.kind === "failed" ? answer.reason : answer.bytes.toString();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function recordingLog(): { readonly lines: LogLine[]; readonly log: Log } {
  const lines: LogLine[] = [];
  const level = (name: string) => (fields: object, message: string) =>
    void lines.push({ level: name, fields: { ...fields }, message });
  const log: Log = {
    debug: level("debug"),
    info: level("info"),
    warn: level("warn"),
    error: level("error"),
    child: () => log,
  };
  return { lines, log };
}
