/** The operator's dashboard on the admin listener. It is loaded when the first user opens it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { sendRequest } from "sluice-gateway/internal/http";
import { createAttemptLimiter, type AttemptLimiter } from "sluice-gateway/internal/limits";
import type { GatewayInfo, Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import { Activity } from "./activity.ts";
import { createAttempts } from "./attempts.ts";
import { gatewayHealth } from "./health.ts";
import { liveActivity, type LiveQuestion } from "./live.ts";
import { createHistoryStore } from "./history/store.ts";
import { HistoryRecorder } from "./history/recorder.ts";
import type { OidcOptions } from "./oidc/user.ts";
import { askAllGateways } from "./other-gateways.ts";
import type { DashboardDeps } from "./deps.ts";
import { rememberAddress } from "./request-address.ts";
import { perMinute } from "./rates.ts";

export function openDashboard(
  oidc: OidcOptions | undefined,
  host: Host,
  { keep }: Pick<ServiceContext, "keep">,
): NonNullable<ServiceHooks<undefined>["admin"]> {
  const gateway = host.use("gateway");
  const { activity } = keep(
    "activity",
    () => observed(gateway),
    (part) => part.stop(),
  );
  const { environment, seal, claims, clock, log, store, version } = host;
  const { postgres, replicas } = store;
  // The main thread has the traffic of all threads, so the others have nothing to add.
  const others = host.threads === undefined ? replicas : undefined;
  const all = { replicas: others, name: postgres?.replica, version, log };
  const open = <T extends Disposable>(name: string, make: () => T): T =>
    keep(name, make, (part) => part[Symbol.dispose]());
  const rate = (name: string, attempts: number): AttemptLimiter =>
    keep(
      `rate of ${name}`,
      () => createAttemptLimiter(store.redis, { name, attempts, windowSeconds: 60 }),
      () => undefined,
    );
  const deps: DashboardDeps = {
    environment,
    version,
    seal,
    claims,
    clock,
    log,
    store,
    gateway,
    liveGateways: open("live of all gateways", () =>
      askAllGateways(all, "dashboard live 2", (question: LiveQuestion) =>
        liveActivity({ activity, gateway, clock }, question),
      ),
    ),
    healthGateways: open("health of all gateways", () =>
      askAllGateways(all, "dashboard health 2", () => gatewayHealth(gateway)),
    ),
    history: keep(
      "health over time",
      () => recorded(host, gateway),
      (part) => part.close(),
    ).recorder,
    accounts: host.use("accounts"),
    metering: host.use("metering"),
    attempts: createAttempts(host, (name, make) => keep(name, make, () => undefined)),
    workspaceRates: {
      keyChanges: rate("key-changes", perMinute.keyChanges),
      reports: rate("reports", perMinute.reports),
    },
    oidc: oidc && { options: oidc, send: sendRequest },
  };
  let app: Promise<FastifyInstance> | undefined;
  return (request, response, address) => {
    rememberAddress(request, address);
    app ??= loadApp(deps);
    answerWhenLoaded(app, request, response, deps);
  };
}

/** Loads everything in three turns of the event loop, because other requests wait for each. */
async function loadApp(deps: DashboardDeps): Promise<FastifyInstance> {
  await import("./packages.ts");
  await nextTurn();
  const { openApp } = await import("./app.ts");
  await nextTurn();
  return openApp(deps);
}

function answerWhenLoaded(
  app: Promise<FastifyInstance>,
  request: IncomingMessage,
  response: ServerResponse,
  { log }: DashboardDeps,
): void {
  app
    .then((opened) => opened.routing(request, response))
    .catch((error: unknown) => {
      log.error({ err: error }, "dashboard: a request failed");
      response.destroy();
    });
}

interface Recorded {
  readonly recorder: HistoryRecorder;
  close(): Promise<void>;
}

function recorded({ store, clock, log }: Host, gateway: GatewayInfo): Recorded {
  const recorder = new HistoryRecorder({
    store: createHistoryStore(store.sql("history")),
    clock,
    log,
  });
  const observer = gateway.onSettled((exchange) => recorder.settled(exchange));
  return {
    recorder,
    async close() {
      observer[Symbol.dispose]();
      await recorder.close();
    },
  };
}

function observed(gateway: GatewayInfo): { readonly activity: Activity; stop(): void } {
  const activity = new Activity();
  const observer = gateway.onSettled((exchange) => activity.settled(exchange));
  return { activity, stop: () => observer[Symbol.dispose]() };
}
