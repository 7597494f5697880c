/** Starts metering in a thread that serves, on credit that the main thread leases to it. */
import type { Host, ServiceContext, ServiceHooks, Threads } from "sluice-gateway/plugin";
import type { Metering } from "sluice-gateway/services";
import { LeasedMeter } from "../leases/leased-meter.ts";
import { LedgerLink } from "../leases/ledger-link.ts";
import { leaseMetrics } from "./metrics.ts";
import { LedgerReplica } from "../leases/replica.ts";
import type { Options } from "./options.ts";
import { epochsTopic, ledgerOfMain } from "./thread-credit.ts";

const name = "metering";
const unavailable = { kind: "unavailable", reason: "the journal cannot be written" } as const;

type Methods = Pick<Metering, "purchasedLeft" | "keyWindows" | "workspaceUsage"> &
  Metering["usage"];

interface Asked {
  readonly method: keyof Methods;
  readonly value: unknown;
}

export async function startInThread(
  { metering: { durability } }: Options,
  threads: Threads,
  host: Host,
  { keep }: ServiceContext,
): Promise<ServiceHooks<Metering>> {
  const { meter } = await keep(
    "leased credit",
    () => openMeter(threads, durability, host),
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      opened?.epochs[Symbol.dispose]();
      await opened?.meter.close();
    },
  );
  // Only `serveReports` answers these calls, with the result of the same method.
  const ask =
    <M extends keyof Methods>(method: M) =>
    (value: Parameters<Methods[M]>[0]) =>
      threads.call(name, { method, value } satisfies Asked) as ReturnType<Methods[M]>;
  return {
    service: {
      reserve: (principal, costMilliCu, about) => meter.reserve(principal, costMilliCu, about),
      reserveWithoutLimit: (principal, costMilliCu, about) =>
        meter.reserveWithoutLimit(principal, costMilliCu, about),
      purchasedLeft: ask("purchasedLeft"),
      keyWindows: ask("keyWindows"),
      workspaceUsage: ask("workspaceUsage"),
      outageMs: undefined,
      usage: { report: ask("report"), spend: ask("spend") },
    },
    ready: () => ({ credit: meter.writable ? true : unavailable.reason }),
  };
}

async function openMeter(
  threads: Threads,
  mode: Options["metering"]["durability"],
  { clock, log, metrics: registry }: Host,
): Promise<{ readonly meter: LeasedMeter; readonly epochs: Disposable }> {
  const metrics = leaseMetrics(registry);
  const link = new LedgerLink({
    ledger: ledgerOfMain(threads),
    replica: new LedgerReplica(`thread ${threads.index}`, mode, true),
    place: "the main thread",
    clock,
    log,
    metrics,
  });
  await link.start();
  return {
    meter: new LeasedMeter({ link, metrics, isAsync: mode === "async", unavailable }),
    epochs: threads.receive(epochsTopic, () => link.feedSoon()),
  };
}

/** Called only in the main thread. */
export function serveReports(threads: Threads, metering: Metering): Disposable {
  const methods: Methods = {
    purchasedLeft: (workspace) => metering.purchasedLeft(workspace),
    keyWindows: (key) => metering.keyWindows(key),
    workspaceUsage: (workspaceId) => metering.workspaceUsage(workspaceId),
    report: (range) => metering.usage.report(range),
    spend: (query) => metering.usage.spend(query),
  };
  return threads.serve(name, (asked) => {
    // Only `startInThread` calls this name.
    const { method, value } = asked as Asked;
    return (methods[method] as (given: unknown) => unknown)(value);
  });
}
