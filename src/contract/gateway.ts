/**
 * The service `gateway`: facts about this process and its traffic. Implemented in src/pipeline/load/gateway-info.ts.
 */
import type { ReportedCalls } from "./called.ts";
import type { Grants } from "./permissions.ts";
import type { NotedFacts } from "./slots.ts";

export interface GatewayInfo {
  /** Returns an environment variable. Undefined if it is not set. */
  variable(name: string): string | undefined;
  /** Returns the running gateway. Throws while the first plugins start. */
  running(): RunningGateway;
  /** Calls `observer` for each exchange that has ended, until the result is disposed. */
  onSettled(observer: (exchange: SettledExchange) => void): Disposable;
}

export interface RunningGateway {
  /** Counts up with every successful load of pipeline.yaml. */
  readonly generation: number;
  /** The result of the last reload, as in /pipelines. */
  readonly reload: object;
  /** pipeline.yaml as it was loaded. `text`: before environment variables are expanded. `path`: an absolute path. */
  readonly file: { readonly path: string; readonly text: string };
  /** Whether the gateway can serve, as in /readyz. */
  readonly ready: boolean;
  /** Maps each check to `ok`, or to the reason why it failed. */
  readonly checks: Readonly<Record<string, string>>;
  readonly backends: readonly BackendStatus[];
  /** Number of running exchanges. */
  readonly exchanges: number;
  /** Origin at which this machine reaches the public listener, such as `http://127.0.0.1:8080`. */
  readonly origin: string;
  /** The routes, and the list for requests that match no route. */
  readonly routes: readonly RouteStatus[];
  /** The loaded plugins, in alphabetical order. */
  readonly plugins: readonly LoadedPlugin[];
  /** Returns the explanations of the requests with this id, newest first. */
  explain(requestId: string): readonly object[];
  /** Like `explain`, on this gateway and on the others that use the same database. Never rejects. */
  explainEverywhere(requestId: string): Promise<FoundExchanges>;
  /** Returns the values of a metric of this gateway. Empty if there is no such metric. */
  metric(name: string): readonly MetricValue[];
}

export interface FoundExchanges {
  /** Explanations, newest first. */
  readonly exchanges: readonly object[];
  /** Names of the gateways that have not answered. */
  readonly missing: readonly string[];
}

export interface MetricValue {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One backend that a service reaches, for `/readyz` and the dashboard. */
export interface BackendStatus {
  /** Kind of the backend, such as `network`. */
  readonly kind: string;
  /** The name of its check in the answer of `/readyz`, such as `upstream search`. */
  readonly title: string;
  /** True if the backend can be used, else the reason why it cannot. */
  readonly ready: true | string;
  /**
   * More about the reason, such as `refused` or `status 401`. `/readyz` shows its first 100 characters to everyone, so
   * it must not contain an address or text that the backend has sent.
   */
  readonly cause?: string;
  /** The address is a default that nobody configured. The gateway may be ready without such a backend. */
  readonly isDefault?: boolean;
  /**
   * The gateway may be ready without the backend, unless `server.ready` names it. The backend of a few tools is an
   * example.
   */
  readonly isOptional?: boolean;
  /** Values that the dashboard shows. They are converted to JSON. */
  readonly details?: object;
}

/** A route of pipeline.yaml with its statistics. */
export interface RouteStatus {
  readonly path: string;
  readonly methods: readonly string[];
  /** Position in pipeline.yaml. */
  readonly at: { readonly line: number; readonly col: number };
  readonly steps: readonly (PluginStatus & {
    readonly mode: "enforce" | "shadow";
    readonly isConditional: boolean;
  })[];
  readonly surface: PluginStatus;
  /** Number of exchanges by class of their HTTP status, such as `2xx`, since the start of the process. */
  readonly requests: Readonly<Record<string, number>>;
}

/** Times, refusals and failures of a step or surface in all routes with its path, since the start of the process. */
export interface PluginStatus {
  readonly name: string;
  /** Number of exchanges whose time was measured. */
  readonly timed: number;
  /** Undefined if no time was measured. */
  readonly meanMs: number | undefined;
  /** Of this route since pipeline.yaml was loaded. Also undefined with several threads. */
  readonly p95Ms: number | undefined;
  /** Number of refusals by code. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Number of times at which it threw an exception or broke its contract. */
  readonly errors: number;
  /** Number of hooks that exceeded the time limit of the step. */
  readonly timeouts: number;
  /** Number of requests that continued without the step (`onError: skip`). */
  readonly skips: number;
}

/** The facts of a plugin that its manifest and its package state. */
export interface PluginFacts {
  readonly name: string;
  readonly kind: "step" | "surface" | "tools" | "service";
  readonly description: string;
  /** Version of its package. Undefined if it is not part of a package. */
  readonly version: string | undefined;
  /** The versions of the contract that it works with. Undefined if the manifest does not say. */
  readonly contract: string | undefined;
  /**
   * `sluice`: it ships with Sluice. `package`: from an installed package. `link`: from a package that is a link to
   * local code. `path`: from a file that pipeline.yaml names. `code`: a test has defined it.
   */
  readonly origin: "sluice" | "package" | "link" | "path" | "code";
  /** Its value under `plugins:` in pipeline.yaml. Undefined if it is not listed there. */
  readonly source: string | undefined;
  /** Whether pipeline.yaml states its grants, so that it cannot ask for more. */
  readonly hasGrants: boolean;
  readonly grants: Grants;
}

/** A loaded plugin with the counts of its code, since the start of the process. */
export interface LoadedPlugin extends PluginFacts {
  /** One entry per kind of calls that the plugin has had. */
  readonly hooks: readonly HookStatus[];
}

/** Times, refusals and failures of one kind of calls of a plugin. */
export interface HookStatus {
  /** `request` for the hooks of a step or surface in requests; else as the label `hook` of the metrics. */
  readonly hook: string;
  /** Number of calls whose time was measured. */
  readonly timed: number;
  /** Time of all measured calls. */
  readonly seconds: number;
  /** Number of calls that were refused, by code. */
  readonly refusals: Readonly<Record<string, number>>;
  /** Number of calls that were tried and failed, by code, such as `GATEWAY_SERVICE_UNAVAILABLE`. */
  readonly failures: Readonly<Record<string, number>>;
  /** Number of times at which the plugin threw an exception or broke its contract. */
  readonly errors: number;
  /** Number of calls that exceeded a time limit. */
  readonly timeouts: number;
}

/** An exchange that has ended. Observers must not change it. They may keep it, because it keeps nothing else alive. */
export interface SettledExchange {
  /** Milliseconds since 1970. */
  readonly arrivedAt: number;
  /** Duration in milliseconds. */
  readonly ms: number;
  readonly method: string;
  /** The route as written in pipeline.yaml. The path of the request may contain secrets of its client. */
  readonly route: { readonly path: string };
  /** 0 if no head was sent. */
  readonly status: number;
  readonly code: string | undefined;
  /** The reason of the refusal, or the scope of the limit that was reached. */
  readonly reason?: string | undefined;
  readonly facts: Readonly<NotedFacts>;
  /** Undefined if the exchange carried no calls. */
  readonly calls: ReportedCalls | undefined;
}
