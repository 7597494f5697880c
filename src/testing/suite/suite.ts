/** The contract suite: rules that every plugin must follow. `sluice plugin test` runs it. */
import { shippedModules } from "../../pipeline/load/modules.ts";
import type { Awaitable, Plugin } from "../../plugin.ts";
import { messageOf } from "../../base/message-of.ts";
import type { StepExample } from "../test-plugin.ts";
import { chunksRule } from "./chunks-rule.ts";
import { manifestRule, operationRule, optionsRule } from "./manifest-rules.ts";
import { freesRule, heapRule } from "./resource-rules.ts";
import { settlesRule } from "./settles-rule.ts";
import { allKinds, openFor, type Rule, type Subject } from "./subject.ts";
import { threadsRule } from "./threads-rule.ts";

const startsRule: Rule = {
  name: "starts",
  kinds: allKinds,
  async check(subject) {
    const gateway = await openFor(subject);
    await gateway[Symbol.asyncDispose]();
    const isStuck = gateway.lines.some((line) => line.startsWith("a part did not end in time"));
    return isStuck ? ["`stop` does not end"] : [];
  },
};

/** A plugin that breaks one of the first two is not checked further. The rules of the modules follow. */
const rules: readonly Rule[] = [
  manifestRule,
  startsRule,
  optionsRule,
  operationRule,
  settlesRule,
  chunksRule,
  freesRule,
  threadsRule,
  heapRule,
];

export const requiredRules: ReadonlySet<string> = new Set([manifestRule.name, startsRule.name]);

export const ruleNames: readonly string[] = rules.map(({ name }) => name);

/** The result of one rule. The plugin follows the rule if there are no problems. */
export interface Finding {
  readonly rule: string;
  readonly problems: readonly string[];
}

export interface SuiteOptions extends Pick<Subject, "loadAgain"> {
  readonly example?: StepExample;
  /** Default 5,000. */
  readonly patienceMs?: number;
  /** Names of the rules to run. Default: all. */
  readonly only?: readonly string[];
  /** Called before a rule runs. The rule waits for the result. */
  readonly begins?: (rule: string) => Awaitable<void>;
  readonly found?: (finding: Finding) => Awaitable<void>;
}

export async function judge(plugin: Plugin, options: SuiteOptions = {}): Promise<Finding[]> {
  const { example = {}, patienceMs = 5_000, only = ruleNames, loadAgain } = options;
  const subject: Subject = { plugin, example, patienceMs, loadAgain };
  const findings: Finding[] = [];
  const { suiteRules } = await shippedModules();
  const more = await Promise.all(suiteRules.map((load) => load()));
  // Modules declare their rules with the type `Rule`.
  for (const rule of [...rules, ...(more.flat() as readonly Rule[])]) {
    if (!only.includes(rule.name)) continue;
    // The manifest may have no valid kind.
    if (rule !== manifestRule && !rule.kinds.includes(plugin.kind)) continue;
    await options.begins?.(rule.name);
    const problems = await problemsOf(rule, subject);
    findings.push({ rule: rule.name, problems });
    await options.found?.({ rule: rule.name, problems });
    if (problems.length > 0 && requiredRules.has(rule.name)) break;
  }
  return findings;
}

async function problemsOf(rule: Rule, subject: Subject): Promise<readonly string[]> {
  try {
    return await rule.check(subject);
  } catch (error) {
    return [messageOf(error)];
  }
}
