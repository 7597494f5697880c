/** Plugins of kind `service`. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { SluiceCode } from "../base/errors.ts";
import type { BackendStatus, GatewayInfo } from "./gateway.ts";
import type { Host } from "./host.ts";
import type { JsonSchema } from "./json.ts";
import type { Manifest } from "./manifest.ts";
import type { Awaitable } from "./phase.ts";

export interface ServiceHooks<Provided> {
  /** The object that `host.use` returns to other plugins. */
  readonly service: Provided;
  /**
   * Called after all plugins have started. Resolves when the service knows whether it can serve, for example after its
   * first probe. A start or a reload waits for it, for at most 2 s.
   */
  initialized?(): Promise<void>;
  /**
   * Returns true if the service can serve, else the reason why it cannot. The answer of `/readyz` depends on it. A
   * service with more than one thing to report returns a map from the names of checks to such values.
   */
  ready?(): true | string | Readonly<Record<string, true | string>>;
  /** Returns the backends that are in use. */
  backends?(): readonly BackendStatus[];
  /**
   * Answers the requests on the admin listener whose path begins with `/` and the name of the service. Their Host
   * header has been checked, and their bodies are unread. The service itself checks the permissions of the caller.
   * `address`: IP address of the client; behind a proxy in `admin.trustProxy`, the one that the proxy reports.
   */
  admin?(request: IncomingMessage, response: ServerResponse, address: string): void;
  stop?(): Awaitable<void>;
}

/** The object that a service gets in addition to `host`. */
export interface ServiceContext {
  /**
   * Returns the part under this key: the one that another instance of this service holds, else the result of `open`. A
   * part is closed when the last instance that holds it has stopped. In this way a database or a pool outlives a reload
   * that changes other parts of the section. All parts of a key must be of the same type.
   */
  readonly keep: <Part>(
    key: string,
    open: () => Part,
    close: (part: Part) => Awaitable<void>,
  ) => Part;
  /**
   * Returns whether the value at this JSON Pointer into the options comes from the default of an environment variable
   * that is not set.
   */
  readonly isDefault: (pointer: string) => boolean;
}

/**
 * Owns something long-lived that other plugins use, such as a backend, a store or a pool. Its options are a section of
 * their own at the top level of pipeline.yaml, under the name of the plugin. One instance runs per distinct section. A
 * reload keeps it if the section, the plugin's code and the services that it uses are unchanged.
 */
export interface Service<
  Options = Record<string, never>,
  Provided = unknown,
> extends Manifest<Options> {
  readonly kind: "service";
  /**
   * The schemas of the top-level sections that the service owns, by name. The options then have one member per section.
   * Without it, the section has the name of the plugin, and its schema is `options`. Only for services that ship with
   * Sluice.
   */
  readonly sections?: Readonly<Record<string, JsonSchema>>;
  /**
   * Schemas of members that the service adds to every entry of a section that another service or the gateway owns, by
   * section and member. The options then have a member for that section, too. Only for services that ship with Sluice.
   */
  readonly extends?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  /** Names of `sections` whose changes need a restart of the gateway. Only for services that ship with Sluice. */
  readonly fixedSections?: readonly string[];
  /**
   * True if the service runs only in the main thread of a process with several (`server.threads`). In the other threads
   * it is as if it were not installed: plugins that run there must list it under `usesIfInstalled`.
   */
  readonly runsOnce?: boolean;
  /**
   * Gives the running service the options of a reload, which may be unchanged. Called when the new generation starts to
   * serve, and not if the load fails. If its options change, a reload keeps a service with `update`, and also the
   * plugins that use it.
   */
  update?(service: Provided, options: Options): void;
  /**
   * Checks rules of the sections that their schemas cannot express. Unlike `check`, it is called even if no plugin uses
   * the service. Only for services that ship with Sluice.
   */
  readonly checkSections?: (
    options: Options,
    deployment: Pick<Host, "environment"> & Pick<GatewayInfo, "variable">,
  ) => readonly SectionFault[];
  /**
   * Returns a stand-in for the service that touches nothing outside the process: no file, no socket. `sluice check`
   * starts the other plugins with it. Without it, `sluice check` starts the service itself and stops it again.
   */
  readonly dryRun?: (options: Options, host: Host) => Awaitable<Provided>;
  start(options: Options, host: Host, context: ServiceContext): Awaitable<ServiceHooks<Provided>>;
}

/** A rule that the sections of a service break. */
export interface SectionFault {
  /** JSON Pointer from the top of the file. */
  readonly pointer: string;
  readonly code: SluiceCode;
  readonly message: string;
}

/** Declares a service, which other plugins get from `host.use`. */
export function defineService<Options, Provided>(
  service: Omit<Service<Options, Provided>, "kind" | "needs" | "wants" | "provides">,
): Service<Options, Provided> {
  return { kind: "service", ...service };
}
