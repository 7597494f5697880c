/** `sluice worker`: the agent beside a model server, which ends the encrypted stream where the model runs. */
import { systemClock } from "../clock.ts";
import { collateralFile, collateralService } from "../confidential/evidence/collateral.ts";
import type { CollateralSource } from "../confidential/evidence/collateral.ts";
import { revocationListService } from "../confidential/evidence/revocation-list.ts";
import type { RevocationListSource } from "../confidential/evidence/revocation-list.ts";
import { isFault } from "../confidential/fault.ts";
import { createLog } from "../log.ts";
import type { Environment } from "../services/accounts.ts";
import type { EvidenceSource } from "../services/evidence.ts";
import { startWorker, type RunningWorker, type WorkerOptions } from "../worker/worker.ts";
import { catchFatalErrors } from "./fatal-errors.ts";
import { UsageError, type Command, type CommandContext, type OptionValues } from "./command.ts";
import { checkName, checkWord, required, text, texts } from "./option.ts";

const sources: readonly EvidenceSource[] = ["auto", "tdx", "sev-snp", "dstack", "simulated"];
const environments: readonly Environment[] = ["dev", "stage", "prod"];
const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
const drainMs = 30_000;
/** As in a status document (src/inference/status.ts). */
const mostCoefficient = 1_000_000;

export const worker: Command = {
  summary: "end encrypted streams beside a model server, in an enclave",
  help: `usage: sluice worker --upstream URL --model ID… --network NAME [--listen HOST:PORT] [--coefficient 1000]
                     [--evidence auto|tdx|sev-snp|dstack|simulated] [--token T] [--advertise URL]
                     [--pccs URL | --collateral FILE] [--kds URL] [--json]

Runs beside a model server, inside the same enclave: decrypts requests, asks the model, encrypts its answers and signs a
usage report for each. Its keys are made at the start and kept in memory only; attestation evidence binds them.
SIGTERM and SIGINT drain it: running requests finish, exit 0.

  --upstream URL      the model server: anything that speaks OpenAI's chat completions, such as http://127.0.0.1:8000
  --model ID          a model of it that may be asked; may be given several times
  --network NAME      the network that it belongs to, as gateways call it
  --listen HOST:PORT  where gateways connect (127.0.0.1:8090)
  --coefficient N     its price in thousandths of the network's (1000)
  --evidence KIND     who vouches for it (auto: dstack's agent, else the kernel's TDX or SEV-SNP). simulated proves
                      nothing, for development; refused with GATEWAY_ENV=prod unless CONFIDENTIAL_ALLOW_SIMULATED=1
  --token T           what gateways must show (also SLUICE_WORKER_TOKEN, which no process list shows)
  --advertise URL     where gateways reach it, for its status document, if not where it listens
  --pccs URL          TDX: where Intel's collateral is fetched, a PCCS or https://api.trustedservices.intel.com
  --collateral FILE   TDX: collateral from a JSON file instead, read anew for each quote
  --kds URL           SEV-SNP: where AMD's revocation list is fetched, https://kdsintf.amd.com or a mirror of it
  --json              print { url, status_url, simulated_root? } as one JSON document when listening

UPSTREAM_API_KEY      sent to the model server as a bearer token
LOG_LEVEL             of the log on standard error (info); no prompt and no answer is ever in it`,
  options: {
    upstream: { type: "string" },
    model: { type: "string", multiple: true },
    network: { type: "string" },
    listen: { type: "string" },
    coefficient: { type: "string" },
    evidence: { type: "string" },
    token: { type: "string" },
    advertise: { type: "string" },
    pccs: { type: "string" },
    collateral: { type: "string" },
    kds: { type: "string" },
  },
  async run(context, values, positionals) {
    if (positionals.length > 0)
      throw new UsageError(`unexpected argument "${positionals.join(" ")}"`);
    const options = readOptions(context, values);
    using fatal = catchFatalErrors({ destination: process.stderr, hidesMessages: true });
    const started = await startOrComplain(context, options);
    if (started === undefined) return 1;
    fatal.drain = { stop: () => started.stop(drainMs), limitMs: drainMs };
    announce(context, started);
    for (const line of warnings(options, started)) context.complain(line);
    if (!context.signal.aborted) {
      await new Promise<void>((resolve) => {
        context.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    await started.stop(drainMs);
    return 0;
  },
};

async function startOrComplain(
  context: CommandContext,
  options: WorkerOptions,
): Promise<RunningWorker | undefined> {
  try {
    const started = await startWorker(options);
    if (!isFault(started)) return started;
    context.complain(`no evidence (${options.evidence}): ${started.message}`);
    if (options.evidence === "auto") {
      context.complain("For development, --evidence simulated stands in for a TEE.");
    }
  } catch (error) {
    // What the system says of an address.
    if (!(error instanceof Error) || !("code" in error)) throw error;
    context.complain(`cannot listen on ${options.host}:${options.port}: ${String(error.code)}`);
  }
  return undefined;
}

function announce(context: CommandContext, started: RunningWorker): void {
  const { url, statusUrl, simulatedRoot, evidence, imageHash } = started;
  if (context.json) {
    const ready = { url, status_url: statusUrl, simulated_root: simulatedRoot };
    return context.print(JSON.stringify(ready));
  }
  context.print(`sluice worker listens on ${url}, status on ${statusUrl}`);
  context.print(`evidence: ${evidence}, image ${imageHash}`);
  if (simulatedRoot === undefined) return;
  context.print(`SIMULATED - NOT A TEE: it proves nothing. Root: ${simulatedRoot}`);
}

function warnings(
  { host, token, collateral, revocationLists }: WorkerOptions,
  { evidence }: RunningWorker,
): readonly string[] {
  const isOpen = token === undefined && !/^(127\.|localhost$|::1$)/.test(host);
  const isBare = evidence === "tdx" && collateral === undefined;
  const isUnlisted = evidence === "sev-snp" && revocationLists === undefined;
  return [
    ...(isOpen ? [`without --token, anyone who reaches ${host} may use the model`] : []),
    ...(isBare ? ["without --pccs or --collateral, gateways refuse its TDX evidence"] : []),
    ...(isUnlisted
      ? ["without --kds, gateways refuse its SEV-SNP evidence unless the host includes AMD's list"]
      : []),
  ];
}

function readOptions(context: CommandContext, values: OptionValues): WorkerOptions {
  const { env } = context;
  const environment = checkVariable(env["GATEWAY_ENV"] || "dev", environments, "GATEWAY_ENV");
  const level = checkVariable(env["LOG_LEVEL"] || "info", levels, "LOG_LEVEL");
  const models = texts(values, "model");
  if (models === undefined) throw new UsageError("--model is missing");
  const advertise = text(values, "advertise");
  return {
    clock: systemClock,
    log: createLog({ level, destination: process.stderr }),
    upstream: checkUrl(required(values, "upstream"), "upstream", ["http:", "https:"]),
    models: [...new Set(models)].map((model) => checkName(model, "model")),
    network: checkName(required(values, "network"), "network"),
    ...readAddress(text(values, "listen") ?? "127.0.0.1:8090"),
    advertise: advertise && checkUrl(advertise, "advertise", ["ws:", "wss:", "http:", "https:"]),
    coefficient: readCoefficient(text(values, "coefficient") ?? "1000"),
    evidence: checkWord(text(values, "evidence") ?? "auto", sources, "evidence"),
    token: readToken(context, values),
    apiKey: env["UPSTREAM_API_KEY"] || undefined,
    simulatedAllowed: environment !== "prod" || env["CONFIDENTIAL_ALLOW_SIMULATED"] === "1",
    collateral: readCollateral(values),
    revocationLists: readKds(text(values, "kds")),
  };
}

function checkVariable<T extends string>(word: string, allowed: readonly T[], name: string): T {
  const found = allowed.find((each) => each === word);
  if (found !== undefined) return found;
  throw new UsageError(`${name}: "${word}" is none of ${allowed.join(", ")}`);
}

/** An option that came out empty is no wish for a worker that is open to all. */
function readToken({ env }: CommandContext, values: OptionValues): string | undefined {
  const given = text(values, "token");
  if (given === "") throw new UsageError("--token is empty");
  return given ?? (env["SLUICE_WORKER_TOKEN"] || undefined);
}

function readCollateral(values: OptionValues): CollateralSource | undefined {
  const file = text(values, "collateral");
  const pccs = text(values, "pccs");
  if (file !== undefined && pccs !== undefined) {
    throw new UsageError("--pccs and --collateral: give one of them");
  }
  if (file !== undefined) return collateralFile(file);
  if (pccs === undefined) return undefined;
  return collateralService(checkUrl(pccs, "pccs", ["http:", "https:"]), systemClock);
}

function readKds(url: string | undefined): RevocationListSource | undefined {
  if (url === undefined) return undefined;
  return revocationListService(checkUrl(url, "kds", ["http:", "https:"]), systemClock);
}

function readAddress(given: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(given);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535) {
    throw new UsageError(`--listen: "${given}" is not HOST:PORT, such as 127.0.0.1:8090`);
  }
  return { host, port };
}

function readCoefficient(given: string): number {
  const coefficient = /^\d{1,7}$/.test(given) ? Number(given) : NaN;
  if (!(coefficient <= mostCoefficient)) {
    throw new UsageError(
      `--coefficient: "${given}" is not a whole number from 0 to ${mostCoefficient}`,
    );
  }
  return coefficient;
}

function checkUrl(given: string, option: string, protocols: readonly string[]): string {
  const url = URL.parse(given);
  if (url === null || !protocols.includes(url.protocol)) {
    throw new UsageError(`--${option}: "${given}" is not an address such as ${protocols[0]}//host`);
  }
  return given;
}
