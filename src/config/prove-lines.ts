/** Runs the order proof for all routes. A fault in a list that many routes use is reported once. */
import type { Plugin } from "../plugin.ts";
import type { Fault } from "./fault.ts";
import { proveOrder, type Line } from "./order.ts";

/** Maximum number of routes that a message lists by name. The others are only counted. */
const maxNamed = 3;

/** Placeholder for the titles of the lines that share a fault. No message of the proof contains a control character. */
const titleMark = "\0";

export function proveLines(lines: readonly Line[], plugins: ReadonlyMap<string, Plugin>): Fault[] {
  const found = new Map<string, { readonly fault: Fault; readonly lines: Line[] }>();
  for (const line of lines) {
    for (const fault of proveOrder({ ...line, title: titleMark }, plugins)) {
      const key = JSON.stringify(fault);
      const known = found.get(key);
      if (known === undefined) found.set(key, { fault, lines: [line] });
      else known.lines.push(line);
    }
  }
  return [...found.values()].map(({ fault, lines: shared }) => {
    return { ...fault, message: fault.message.replace(titleMark, () => titleOf(shared)) };
  });
}

/** Returns `POST /a`, or `26 routes (POST /a, GET /b, GET /c and 23 more)`. */
function titleOf(lines: readonly Line[]): string {
  const routes = [...new Set(lines.filter(isRoute).map(({ title }) => title))];
  const others = lines.filter((line) => !isRoute(line)).map(({ title }) => title);
  const [only = ""] = routes;
  const named = routes.slice(0, maxNamed).join(", ");
  const rest = routes.length - maxNamed;
  const listed = rest > 0 ? `${named} and ${rest} more` : named;
  const all = routes.length > 1 ? `${routes.length} routes (${listed})` : only;
  return [all, ...others].filter((part) => part !== "").join(" and ");
}

function isRoute({ route }: Line): boolean {
  return route !== undefined;
}
