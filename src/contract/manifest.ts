/** The manifest of a plugin. */
import type { Host } from "./host.ts";
import type { JsonSchema } from "./json.ts";
import type { Operation, OperationPlace } from "./operation.ts";
import type { Permissions } from "./permissions.ts";
import type { ServiceName } from "./service-types.ts";
import type { SlotPhases } from "./slots.ts";

/** The members that `sluice check` reads without running the plugin: all except `start`. */
export interface Manifest<Options> {
  /** Name of the plugin in kebab case, as used in pipeline.yaml. It is also the name of the plugin's folder. */
  readonly name: string;
  /**
   * The versions of this contract that the plugin works with: `^1`, `^1.2` if it needs something that came with 1.2, or
   * `^1 || ^2`.
   * A gateway with another version refuses to load it. Missing only in plugins that are not published.
   */
  readonly contract?: string;
  /** One sentence, shown by `sluice check --json` and on /pipelines. */
  readonly description: string;
  /**
   * JSON Schema of the options: an object schema with `additionalProperties: false`. Missing if the plugin has no
   * options.
   */
  readonly options?: JsonSchema;
  /** Slots that an earlier plugin must provide. */
  readonly needs?: SlotPhases;
  /** Slots that the plugin uses if an earlier plugin provides them. */
  readonly wants?: SlotPhases;
  /** Slots that this plugin sets, each with the phase. A slot has at most one provider per route. */
  readonly provides?: SlotPhases;
  /** Services that this plugin gets from `host.use`. They start before the plugin and stop after it. */
  readonly uses?: readonly ServiceName[];
  /**
   * Services that this plugin gets from `host.use(name, { ifInstalled: true })`. Those that are installed start before
   * the plugin and stop after it. The plugin also works without them.
   */
  readonly usesIfInstalled?: readonly ServiceName[];
  /**
   * True if the plugin keeps state that must be one for the whole process, such as the rate of a caller.
   * `sluice check` then refuses several threads (`server.threads`).
   */
  readonly needsOneThread?: boolean;
  /** Servers, environment variables and bodies that the plugin works with, in addition to its services. */
  readonly permissions?: Permissions;
  /**
   * Checks rules that a schema cannot express (a name that must exist, two options that exclude each other). Returns
   * one entry per fault. `pointer`: a JSON Pointer into the options, from which the position in the file is found.
   */
  readonly check?: (
    options: Options,
    host: Host,
  ) => readonly { pointer: string; message: string }[];
}

/** The member that steps and surfaces may add to their manifest for the OpenAPI document of the deployment. */
export interface Documented<Options> {
  /**
   * Describes the plugin's part of one method of a route: what it accepts, answers and refuses. Called while a
   * generation is loaded, with valid options; services are running. A surface without it is documented as one that
   * may answer anything.
   */
  readonly operation?: (options: Options, place: OperationPlace, host: Host) => Operation;
}
