/** What modules contribute to `sluice dev`: demo backends, lines of the banner and example requests. */
import type { Gateway } from "../gateway/gateway.ts";
import { shippedModules } from "../pipeline/load/modules.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface Demo {
  /**
   * Starts the demo backends that `env` does not replace with real ones. Returns the environment variables with which
   * the gateway finds them. `started` closes them.
   */
  start?(env: Environment, started: AsyncDisposableStack): Promise<Environment>;
  /** Returns a key with which the example requests work. */
  createKey?(gateway: Gateway): Promise<DemoKey>;
  /** Describes the module's part of the running gateway. */
  describe(setUp: DemoSetUp): Promise<DemoDescription> | DemoDescription;
}

export interface DemoKey {
  readonly workspaceId: string;
  /** Text of the key, which is not stored anywhere. */
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface DemoSetUp {
  readonly gateway: Gateway;
  /** Undefined if no module creates keys. */
  readonly key: DemoKey | undefined;
  /** The variables that the demos have set. */
  readonly demoEnv: Environment;
}

export interface DemoDescription {
  /** Determines the order of the descriptions in the banner: smaller numbers first. */
  readonly position: number;
  /** Lines of the banner: a label of at most 11 characters, and a text. */
  readonly lines: readonly (readonly [string, string])[];
  /** Members of the JSON output. */
  readonly json: Readonly<Record<string, unknown>>;
  readonly requests?: readonly ExampleRequest[];
  /** Shell commands that are printed after the requests. */
  readonly commands?: readonly string[];
}

export interface ExampleRequest {
  readonly method: "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The same request as a shell command. */
  readonly curl: string;
}

/** Starts the demos of all modules. Returns them and the environment variables that they set. */
export async function startDemos(
  env: Environment,
  started: AsyncDisposableStack,
): Promise<{ readonly demos: readonly Demo[]; readonly env: Environment }> {
  const { demos: loaders } = await shippedModules();
  const demos = await Promise.all(loaders.map((load) => load()));
  const set: Record<string, string | undefined> = {};
  for (const demo of demos) Object.assign(set, await demo.start?.(env, started));
  return { demos, env: set };
}

/** Returns a JSON request as data and as a curl command. */
export function exampleRequest(
  url: string,
  key: DemoKey | undefined,
  body: string,
  command = "curl -s",
): ExampleRequest {
  const headers = {
    ...(key !== undefined && { authorization: `Bearer ${key.text}` }),
    "content-type": "application/json",
  };
  const flags = Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`);
  const curl = [command, url, ...flags, `-d '${body}'`].join(" ");
  return { method: "POST", url, headers, body, curl };
}

/** Returns whether two URLs have the same host and port. */
export function hasSameHost(one: string, other: string): boolean {
  return new URL(one).host === new URL(other).host;
}
