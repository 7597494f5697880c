/** The rule `settles` of the contract suite for plugins of kind `tools`: every call of a tool ends, and none throws. */
import { notSettled, within, type Rule } from "sluice-gateway/internal/test-kit";
import { testTools, type TestedTools } from "sluice-gateway/testing";
import type { ToolCaller, ToolOutcome } from "sluice-gateway/services";
import { newObjectsWarning } from "./tool-catalogue/tool-source.ts";

type Subject = Parameters<Rule["check"]>[0];

/** An event while the tool runs. `caller`: the members in which its caller differs from the default. */
interface Way {
  readonly name: string;
  readonly caller?: () => Partial<ToolCaller>;
  readonly act?: (tested: TestedTools) => unknown;
}

const ways: readonly Way[] = [
  { name: "reply" },
  { name: "caller gone", caller: () => ({ signal: AbortSignal.abort() }) },
  {
    name: "caller gone in the call",
    caller() {
      const leaving = new AbortController();
      queueMicrotask(() => leaving.abort());
      return { signal: leaving.signal };
    },
  },
  // An hour exceeds every time limit.
  { name: "time-out", act: (tested) => tested.clock.advance(3_600_000) },
  { name: "stop", act: (tested) => tested[Symbol.asyncDispose]() },
];

const newObjects =
  "`tools` returns new objects each time it is read; return the same objects while the tools do not change";

export const toolsSettleRule: Rule = {
  name: "settles",
  kinds: ["tools"],
  async check(subject) {
    const problems: string[] = [];
    for (const way of ways) problems.push(...(await problemsOf(subject, way)));
    return [...new Set(problems)];
  },
};

async function problemsOf({ plugin, example, patienceMs }: Subject, way: Way): Promise<string[]> {
  if (plugin.kind !== "tools") return [];
  const problems: string[] = [];
  // Each way starts its own plugin, because the last way stops the plugin.
  await using tested = await testTools(plugin, example as object);
  const names = tested.catalogue.list.map(({ name }) => name);
  const calls = names.map((name) => {
    const input = example.inputs?.[name] ?? {};
    return [name, tested.call(name, input, way.caller?.() ?? {})] as const;
  });
  const acted = Promise.resolve(way.act?.(tested));
  for (const [name, call] of calls) {
    const where = `${way.name}: ${name}`;
    const outcome = await within<ToolOutcome>(call, patienceMs);
    if (outcome === undefined) problems.push(notSettled(where, patienceMs, "the call"));
    else if (!outcome.ok && outcome.code === "GATEWAY_INTERNAL_ERROR") {
      problems.push(`${where}: ${reasonIn(tested.lines, name)}`);
    }
  }
  await within(acted, patienceMs);
  if (tested.lines.some((line) => line.includes(newObjectsWarning))) problems.push(newObjects);
  return problems;
}

function reasonIn(lines: readonly string[], tool: string): string {
  const line = lines.findLast((each) => each.includes(`"tool":${JSON.stringify(tool)}`));
  return line ?? "the tool failed";
}
