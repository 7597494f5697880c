/**
 * A module is a folder of plugins/ with the plugins of one domain. Its file `module.ts` exports what the gateway must
 * know of the module before it reads pipeline.yaml. It is imported at every start, so it imports only what is small.
 */
import type { Service } from "./plugin.ts";

export interface Module {
  /** The services of the module. Each is started if a plugin in use needs it. */
  readonly services?: readonly Service<never>[];
  /** Names of services that every gateway starts. */
  readonly alwaysOn?: readonly string[];
  /**
   * Maps a service of this module to a service of another module, with which it is started, or to `tools`, if it is
   * started when the section `tools` has an entry.
   */
  readonly companions?: Readonly<Record<string, string>>;
}
