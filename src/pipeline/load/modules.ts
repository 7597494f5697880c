import { addErrors } from "../../base/errors.ts";
import { reserveFields } from "../../message/headers.ts";
import { upstreams } from "../../http/upstream/service.ts";
import { shippedFiles } from "../../shipped-files.ts";
import type { Module, ModuleCommand } from "../../module.ts";
import type { Service } from "../../plugin.ts";

interface ShippedModules {
  readonly services: ReadonlyMap<string, Service<never>>;
  /** The same services. The list is the same one at every call, so that the schema of the file is made once. */
  readonly list: readonly Service<never>[];
  readonly alwaysOn: readonly string[];
  /** Pairs of a service and the service with which it is started. */
  readonly companions: readonly (readonly [string, string])[];
  readonly commands: Readonly<Record<string, ModuleCommand>>;
  readonly databases: readonly NonNullable<Module["databases"]>[];
  readonly disposable: readonly string[];
  readonly tables: readonly NonNullable<Module["tables"]>[];
  readonly migrations: readonly NonNullable<Module["migrations"]>[];
  readonly positions: NonNullable<Module["positions"]>;
  readonly production: readonly NonNullable<Module["production"]>[];
  readonly sharedSettings: readonly NonNullable<Module["sharedSettings"]>[];
  readonly store: readonly NonNullable<Module["store"]>[];
  readonly demos: readonly NonNullable<Module["demo"]>[];
  readonly inits: readonly NonNullable<Module["init"]>[];
  readonly firstSteps: readonly NonNullable<Module["firstSteps"]>[];
  readonly suiteRules: readonly NonNullable<Module["suiteRules"]>[];
}

let loading: Promise<ShippedModules> | undefined;

export function shippedModules(): Promise<ShippedModules> {
  loading ??= importModules();
  return loading;
}

export async function shippedServices(): Promise<readonly Service<never>[]> {
  return (await shippedModules()).list;
}

async function importModules(): Promise<ShippedModules> {
  const modules: Module[] = [{ services: [upstreams] }];
  for (const [file, load] of Object.entries(shippedFiles())) {
    if (!file.endsWith("/module.ts")) continue;
    const { default: module } = (await load()) as { default: Module };
    modules.push(module);
    addErrors(module.errors ?? {});
    reserveFields(module.ownFields ?? []);
  }
  const services = modules.flatMap((module) => module.services ?? []);
  return {
    services: new Map(services.map((service) => [service.name, service])),
    list: services,
    alwaysOn: modules.flatMap((module) => module.alwaysOn ?? []),
    companions: modules.flatMap((module) => Object.entries(module.companions ?? {})),
    commands: Object.fromEntries(
      modules.flatMap((module) => Object.entries(module.commands ?? {})),
    ),
    firstSteps: modules.flatMap((module) => module.firstSteps ?? []),
    databases: modules.flatMap((module) => module.databases ?? []),
    disposable: modules.flatMap((module) => module.disposable ?? []),
    tables: modules.flatMap((module) => module.tables ?? []),
    migrations: modules.flatMap((module) => module.migrations ?? []),
    positions: Object.fromEntries(
      modules.flatMap((module) => Object.entries(module.positions ?? {})),
    ),
    production: modules.flatMap((module) => module.production ?? []),
    sharedSettings: modules.flatMap((module) => module.sharedSettings ?? []),
    inits: modules.flatMap((module) => module.init ?? []),
    store: modules.flatMap((module) => module.store ?? []),
    demos: modules.flatMap((module) => module.demo ?? []),
    suiteRules: modules.flatMap((module) => module.suiteRules ?? []),
  };
}
