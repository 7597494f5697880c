/** Starts a single service outside of a gateway, for processes such as `sluice worker`. */
import { locate } from "../../config/located.ts";
import { validate } from "../../config/validate.ts";
import type { Host, ServiceHooks, ServiceName, ServiceTypes } from "../../plugin.ts";
import { KeptParts } from "./kept-parts.ts";
import { shippedModules } from "./modules.ts";

type StandIns = { readonly [Name in ServiceName]?: Partial<ServiceTypes[Name]> };

interface RunningService<Provided> {
  readonly service: Provided;
  stop(): Promise<void>;
}

/**
 * Waits until the service is initialized. `sections`: as in pipeline.yaml. `host`: the members that the service needs.
 * `used`: stand-ins for the services that it uses.
 */
export async function startAlone<Name extends ServiceName>(
  name: Name,
  sections: Readonly<Record<string, unknown>>,
  host: Partial<Host>,
  used: StandIns,
): Promise<RunningService<ServiceTypes[Name]>> {
  const service = (await shippedModules()).services.get(name);
  if (service === undefined) throw new Error(`unknown service "${name}"`);
  const at = { file: name, line: 1, col: 1 };
  const schema = { type: "object", properties: { ...service.sections } };
  const { value, faults } = validate(locate(sections, at), schema);
  // The message of a fault can contain a secret.
  if (faults.length > 0) throw new Error(`invalid options of the service "${name}"`);
  const holder = new KeptParts().holder(service);
  const context = { keep: holder.keep, isDefault: () => false };
  // `validate` has checked the options. The plugin that declares the type of a service is the one that provides it.
  const hooks = (await service.start(
    value as never,
    restricted(name, host, used),
    context,
  )) as ServiceHooks<ServiceTypes[Name]>;
  await hooks.initialized?.();
  return {
    service: hooks.service,
    async stop() {
      await hooks.stop?.();
      await holder.release();
    },
  };
}

function restricted(name: string, host: Partial<Host>, used: StandIns): Host {
  const use = <Name extends ServiceName>(wanted: Name): ServiceTypes[Name] => {
    const service = used[wanted];
    if (service === undefined) throw new Error(`"${name}" uses the missing service "${wanted}"`);
    // The caller of `startAlone` passes every member that the service calls.
    return service as ServiceTypes[Name];
  };
  const members: Partial<Host> = { threads: undefined, ...host, use };
  return new Proxy(members, {
    get(target, member) {
      if (Object.hasOwn(target, member)) return Reflect.get(target, member) as unknown;
      throw new Error(`"${name}" uses the missing member "${String(member)}" of its host`);
    },
    // The proxy throws for every member that the object does not have.
  }) as Host;
}
