/** The contributions of modules to `sluice dev`: demo backends, lines of the banner and example requests. */
import type { Config } from "./config/config.ts";
import type { ServiceName, ServiceTypes } from "./plugin.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface Demo {
  /** Text of `sluice dev --help` about the demo: a paragraph, and environment variables with their meanings. */
  readonly help?: { readonly text: string; readonly variables?: Readonly<Record<string, string>> };
  /**
   * Starts the demo backends that `env` does not replace with real ones. `started` closes them. Returns the variables
   * with which the gateway finds them.
   */
  start?(env: Environment, started: AsyncDisposableStack): Promise<Environment>;
  createKey?(gateway: DemoGateway): Promise<DemoKey>;
  describe(setUp: DemoSetUp): Promise<DemoDescription> | DemoDescription;
}

export interface DemoGateway {
  readonly config: Config;
  readonly url: string;
  /** Undefined if the service does not run. */
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name] | undefined;
}

export interface DemoKey {
  /** Id of the group that the key belongs to. */
  readonly group: string;
  /** Text of the key, which is not stored anywhere. */
  readonly text: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

export interface DemoSetUp {
  readonly gateway: DemoGateway;
  /** Undefined if no module creates keys. */
  readonly key: DemoKey | undefined;
  readonly demoEnv: Environment;
}

export interface DemoDescription {
  /** Determines the order of the descriptions in the banner: smaller numbers first. */
  readonly position: number;
  /** Lines of the banner: a label of at most 11 characters, and a text. */
  readonly lines: readonly (readonly [string, string])[];
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
  readonly curl: string;
}

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

export function hasSameHost(one: string, other: string): boolean {
  return new URL(one).host === new URL(other).host;
}
