/** Proves the order of all routes. A fault in a list that many routes use is reported once. */
import type { Plugin } from "../plugin.ts";
import type { Fault } from "./fault.ts";
import { proveOrder, type StepChain } from "./order.ts";

const maxNamed = 3;

/** Stands for the titles of the chains that share a fault. No message of the proof contains a control character. */
const titleMark = "\0";

export function proveChains(
  chains: readonly StepChain[],
  plugins: ReadonlyMap<string, Plugin>,
): Fault[] {
  const found = new Map<string, { readonly fault: Fault; readonly lines: StepChain[] }>();
  for (const chain of chains) {
    for (const fault of proveOrder({ ...chain, title: titleMark }, plugins)) {
      const key = JSON.stringify(fault);
      const known = found.get(key);
      if (known === undefined) found.set(key, { fault, lines: [chain] });
      else known.lines.push(chain);
    }
  }
  return [...found.values()].map(({ fault, lines: shared }) => {
    return { ...fault, message: fault.message.replace(titleMark, () => titleOf(shared)) };
  });
}

/** Returns `POST /a`, or `26 routes (POST /a, GET /b, GET /c and 23 more)`. */
function titleOf(chains: readonly StepChain[]): string {
  const routes = [...new Set(chains.filter(isRoute).map(({ title }) => title))];
  const others = chains.filter((line) => !isRoute(line)).map(({ title }) => title);
  const [only = ""] = routes;
  const named = routes.slice(0, maxNamed).join(", ");
  const rest = routes.length - maxNamed;
  const listed = rest > 0 ? `${named} and ${rest} more` : named;
  const all = routes.length > 1 ? `${routes.length} routes (${listed})` : only;
  return [all, ...others].filter((part) => part !== "").join(" and ");
}

function isRoute({ route }: StepChain): boolean {
  return route !== undefined;
}
