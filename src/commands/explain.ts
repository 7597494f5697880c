import type { Config } from "../config/config.ts";
import { printFault } from "../config/fault.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import type { Explanation } from "../pipeline/observe/explanation.ts";
import { UsageError, type Command, type CommandContext, type OptionValues } from "./command.ts";
import { optionText } from "./option.ts";

/** The admin listener answers from memory, and waits for other gateways for at most a second. */
const timeoutMs = 5_000;

export const explain: Command = {
  summary: "show how a request was handled, step by step",
  help: `usage: sluice explain REQUEST_ID [--admin URL]

Asks the running gateway for the request with this X-Request-Id. Prints what each step did with the request, how long
the step took, and which limit refused the request. With a database, the other gateways that use it are asked, too. A
gateway keeps the latest 2048 successful exchanges and the latest 2048 refused ones. Under load it measures the times of
one exchange in eight.

--admin URL      address of the gateway's admin listener (default: admin.host and admin.port of pipeline.yaml)
--json           print one JSON document
--config FILE    path of pipeline.yaml, which has the address of the admin listener`,
  options: { admin: { type: "string" } },
  async run(context, values, [requestId, extra]) {
    if (requestId === undefined) throw new UsageError("missing argument REQUEST_ID");
    if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
    const url = await adminUrl(context, values);
    if (url === undefined) return 1;
    const found = await ask(url, requestId, context.signal);
    if (typeof found === "string") {
      context.printToStderr(found);
      return 1;
    }
    const { exchanges, missing = [] } = found;
    if (context.json) context.print(JSON.stringify(found));
    else for (const exchange of exchanges) for (const line of lines(exchange)) context.print(line);
    if (missing.length > 0) context.printToStderr(notAnswered(missing));
    return 0;
  },
};

async function adminUrl(context: CommandContext, values: OptionValues): Promise<URL | undefined> {
  const given = optionText(values, "admin");
  if (given !== undefined) {
    const url = URL.parse(given);
    if (url === null || !["http:", "https:"].includes(url.protocol)) {
      throw new UsageError(`--admin: expected a URL such as http://127.0.0.1:9090, got "${given}"`);
    }
    return url;
  }
  const { config, faults } = await readPipeline(context.configFile, context.env);
  if (config === undefined) {
    for (const fault of faults) context.printToStderr(printFault(fault, process.cwd()));
    return undefined;
  }
  if (config.admin.port !== 0) return configured(config.admin);
  context.printToStderr(
    "admin.port is 0, which means any free port. Pass the address of the admin listener with --admin.",
  );
  return undefined;
}

function configured({ host, port }: Config["admin"]): URL {
  // A listener on all addresses also listens on localhost.
  const reached = host === "0.0.0.0" || host === "::" ? "localhost" : host;
  return new URL(`http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`);
}

interface Found {
  readonly exchanges: readonly Explanation[];
  readonly missing?: readonly string[];
}

function notAnswered(missing: readonly string[]): string {
  return `no answer from ${missing.join(", ")}`;
}

/** A text is the reason why there are none. */
async function ask(admin: URL, requestId: string, signal: AbortSignal): Promise<Found | string> {
  const url = new URL("/explain", admin);
  url.searchParams.set("id", requestId);
  try {
    const given = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const answer = await fetch(url, { signal: given });
    // The responses below were written by the code of this package, so their shapes are known.
    if (answer.status === 404) {
      const { details } = (await answer.json()) as { readonly details?: Partial<Found> };
      const { missing = [] } = details ?? {};
      return missing.length === 0
        ? `the gateway has no record of request ${requestId}, or no longer keeps it`
        : `the gateways that answered have no record of request ${requestId}; ${notAnswered(missing)}`;
    }
    if (answer.status !== 200) return `${admin.origin} answered ${answer.status}`;
    return (await answer.json()) as Found;
  } catch (error) {
    const reason = error instanceof Error ? (error.cause ?? error) : error;
    const hint = "Is this the address of the admin listener? Pass another one with --admin.";
    return `no answer from ${admin.origin}: ${String(reason)}. ${hint}`;
  }
}

function lines(exchange: Explanation): string[] {
  const { request_id: id, at, method, route, status, code, outcome, ms, limit } = exchange;
  const { upstream, upstream_failure: failure } = exchange;
  const who =
    exchange.key_id === undefined ? "no key" : `${exchange.key_id} of ${exchange.workspace_id}`;
  const why = exchange.reason === undefined ? "" : ` (${exchange.reason})`;
  const width = Math.max(...exchange.steps.map(({ step }) => step.length));
  return [
    `${id}  ${at}  ${method} ${route}${exchange.replica === undefined ? "" : `  on ${exchange.replica}`}`,
    `  ${status === 0 ? "no answer" : status}${code === undefined ? "" : ` ${code}`}${why}, ${outcome}, ${ms} ms, ${who}`,
    ...(failure === undefined ? [] : [`  ${failureLine(upstream, failure)}`]),
    ...(exchange.calls === undefined ? [] : [`  ${callsLine(exchange.calls)}`]),
    ...(limit === undefined ? [] : [`  ${limitLine(limit)}`]),
    ...(exchange.store === undefined ? [] : [`  ${exchange.store}`]),
    ...exchange.steps.map(({ step, did, reason, ms: took }) => {
      const what = (reason === undefined ? did : `${did}: ${reason}`).padEnd(12);
      return `    ${step.padEnd(width)}  ${what}${took === undefined ? "" : `  ${took} ms`}`.trimEnd();
    }),
  ];
}

function failureLine(
  upstream: string | undefined,
  { cause, ...details }: NonNullable<Explanation["upstream_failure"]>,
): string {
  const listed = Object.entries(details).map(([name, value]) => `${name} ${value}`);
  return `upstream ${upstream ?? "?"} failed: ${[cause, ...listed].join(", ")}`;
}

function callsLine({ names, items, failed }: NonNullable<Explanation["calls"]>): string {
  const called = `called ${names.join(", ")}`;
  if (items === 1) return failed === 0 ? called : `${called} (failed)`;
  return `${called} (${items} calls, ${failed} failed)`;
}

function limitLine({
  scope,
  unit,
  used,
  limit,
  clears_at: at,
}: NonNullable<Explanation["limit"]>): string {
  const clears =
    at === undefined ? "has room now, or does not free up by itself" : `has room again at ${at}`;
  return `limit ${scope}: ${used} of ${limit} ${unit} used, ${clears}`;
}
