/**
 * A module is a folder of plugins/ with the plugins of one domain. Its file `module.ts` exports what the gateway must
 * know of the module before it reads pipeline.yaml. It is imported at every start, so it imports only what is small.
 */
import type { Command } from "./commands/command.ts";
import type { Subcommand } from "./commands/subcommand.ts";
import type { ProductionCheck } from "./config/production.ts";
import type { Demo } from "./demo.ts";
import type { ModuleErrors } from "./base/errors.ts";
import type { Awaitable, Plugin, Service, ServiceName, ServiceTypes } from "./plugin.ts";
import type { Migration } from "./store/postgres/migrations.ts";
import type { Tables } from "./store/sql/tables.ts";

export interface Module {
  /** The services of the module. Each is started if a plugin in use needs it. */
  readonly services?: readonly Service<never>[];
  readonly alwaysOn?: readonly string[];
  /**
   * Maps a service of this module to a service of another module, with which it is started, or to `tools`, if it is
   * started when the section `tools` has an entry.
   */
  readonly companions?: Readonly<Record<string, string>>;
  /** The tables of the module in `host.store.sql`. Those of the core are made before them. */
  readonly tables?: () => Promise<Tables>;
  /** Schema versions that this release writes, by file name in the data folder. `sluice restore` refuses newer ones. */
  readonly databases?: () => Promise<Readonly<Record<string, number>>>;
  /**
   * Names of databases in the data folder that can be replaced by empty ones. A gateway that starts sets a damaged one
   * aside, and refuses to start if another database is damaged.
   */
  readonly disposable?: readonly string[];
  /** The scripts that make the tables of the module in PostgreSQL. Those of the core run before them. */
  readonly migrations?: () => Promise<readonly Migration[]>;
  /**
   * Files in the data folder that hold how far something outside of the gateway has come, such as a delivery. A restore
   * never replaces one, so that the position does not go back. The values are notes that `sluice restore` prints.
   */
  readonly positions?: Readonly<Record<string, string>>;
  /** Returns the settings of the module's sections that should not go to production, for `sluice check --strict`. */
  readonly production?: ProductionCheck;
  /**
   * Returns the validated settings that must be equal on all gateways with the same database, by section. A gateway
   * with other settings is reported; each applies its own.
   */
  readonly sharedSettings?: (
    sections: Readonly<Record<string, unknown>>,
  ) => Readonly<Record<string, unknown>>;
  readonly errors?: ModuleErrors;
  /** Names of response fields in lower case that only this gateway may set. They are removed from answers of upstreams. */
  readonly ownFields?: readonly string[];
  /** The commands that the module adds to `sluice`, by name. A name may have an option: `verify --head`. */
  readonly commands?: Readonly<Record<string, ModuleCommand>>;
  readonly store?: () => Promise<StoreSubcommands>;
  readonly init?: () => Promise<InitParts>;
  readonly demo?: () => Promise<Demo>;
  readonly suiteRules?: () => Promise<readonly SuiteRule[]>;
  /** Returns what an operator must do before the module is of use. Called when `sluice start` announces the gateway. */
  readonly firstSteps?: () => Promise<FirstSteps>;
}

/** A rule of the contract suite. Modules declare it with the type `Rule` of `sluice-gateway/internal/test-kit`. */
export interface SuiteRule {
  readonly name: string;
  readonly kinds: readonly Plugin["kind"][];
  check(subject: never): Promise<readonly string[]>;
}

/**
 * `commonArguments`: the `--config` and `--env-file` arguments for commands that are proposed, with a leading space.
 * Returns undefined if there is nothing to do.
 */
export type FirstSteps = (
  gateway: StartedGateway,
  commonArguments: string,
) => Awaitable<
  | {
      /** The warning in the log, and its field `next`. */
      readonly message: string;
      readonly next: string;
      readonly text: string;
    }
  | undefined
>;

export interface StartedGateway {
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name] | undefined;
}

export interface InitParts {
  readonly templates?: Readonly<Record<string, InitTemplate>>;
  /** Meanings of the environment variables that templates and the shipped pipeline.yaml read, for .env.example. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Text that is printed after the files are written: what to do when the gateway runs. */
  readonly steps?: string;
}

export interface InitTemplate {
  readonly summary: string;
  /** Path of the file in the package. */
  readonly file: string;
  /** True if `sluice dev` has demo backends for what the template configures. */
  readonly hasDemo: boolean;
}

export interface ModuleCommand {
  readonly load: () => Promise<Command>;
  /** Space for new objects in MiB, if the command runs until it is stopped. */
  readonly semiSpaceMiB?: number;
}

export interface StoreSubcommands {
  readonly subcommands: Readonly<Record<string, Subcommand>>;
  /** A line for each subcommand with its arguments, such as `forget NAME`. */
  readonly usage: readonly string[];
  /** The lines of the help that describe the subcommands, without a line break at the end. */
  readonly help: string;
}
