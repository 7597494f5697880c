/**
 * The parts of the core that the file `module.ts` of a module, its commands and its demo need, exported as
 * `sluice-gateway/internal/module`. Every start imports it, so it exports only what is small: see `sluice-gateway/internal/process` for
 * the rest.
 */
export { systemClock } from "../base/clock.ts";
export {
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "../commands/command.ts";
export {
  checkName,
  checkWord,
  requiredOption,
  optionText,
  optionTexts,
} from "../commands/option.ts";
export { plaintextProblems, type ProductionProblem } from "../config/production.ts";
export { runSubcommand, unknownValueMessage, type Subcommand } from "../commands/subcommand.ts";
export {
  exampleRequest,
  hasSameHost,
  type Demo,
  type DemoKey,
  type ExampleRequest,
} from "../demo.ts";
export { close, listen, readBody } from "../http/demo-server.ts";
export type { FirstSteps, InitParts, Module, StoreSubcommands } from "../module.ts";
