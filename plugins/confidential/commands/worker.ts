import {
  checkName,
  checkWord,
  requiredOption,
  systemClock,
  optionText,
  optionTexts,
  unknownValueMessage,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "sluice-gateway/internal/module";
import type { Environment } from "sluice-gateway/plugin";
import {
  catchFatalErrors,
  createLog,
  limitHeapGrowth,
  standardStream,
} from "sluice-gateway/internal/process";
import type { EvidenceSource } from "sluice-gateway/services";
import { errorCode } from "sluice-gateway/internal/toolkit";
import { collateralFile, collateralService } from "../evidence/collateral.ts";
import type { CollateralSource } from "../evidence/collateral.ts";
import { revocationListService, type RevocationListSource } from "../evidence/revocation-list.ts";
import { whenAborted } from "../evidence/provider.ts";
import { isFault } from "../protocol/fault.ts";
import { startWorker, type RunningWorker, type WorkerOptions } from "../worker/worker.ts";

const sources: readonly EvidenceSource[] = ["auto", "tdx", "sev-snp", "dstack", "simulated"];
const environments: readonly Environment[] = ["dev", "stage", "prod"];
const levels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
const drainMs = 30_000;
/** Maximum price coefficient, as in a status document (plugins/inference/networks/status-document.ts). */
const maxCoefficient = 1_000_000;
const maxShown = 10;

export const worker: Command = {
  summary: "decrypt requests next to a model server, inside its enclave",
  help: `usage: sluice worker --upstream URL --model ID… --network NAME [--listen HOST:PORT] [--coefficient 1000]
                     [--evidence auto|tdx|sev-snp|dstack|simulated] [--token T] [--advertise URL]
                     [--pccs URL | --collateral FILE] [--kds URL] [--json]

Runs next to a model server, inside the same enclave. Decrypts requests, sends them to the model server, encrypts the
answers and signs a usage report for each answer. Its keys are created at start and kept in memory only; its attestation
evidence binds them. On SIGTERM and SIGINT it drains: running requests finish, and the exit code is 0.

  --upstream URL      address of the model server, such as http://127.0.0.1:8000: any server with OpenAI's chat
                      completions API
  --model ID          model that may be used; may be given several times
  --network NAME      name of the network, as in the pipeline.yaml of the gateways
  --listen HOST:PORT  address on which gateways connect (default: 127.0.0.1:8090)
  --coefficient N     price in thousandths of the network's price (default: 1000)
  --evidence KIND     source of the attestation evidence (default: auto, which is dstack's agent, else the kernel's TDX
                      or SEV-SNP). simulated is for development and proves nothing; with GATEWAY_ENV=prod it is refused
                      unless CONFIDENTIAL_ALLOW_SIMULATED=1
  --token T           token that gateways must send (default: SLUICE_WORKER_TOKEN, which process lists do not show)
  --advertise URL     address for the status document, if gateways reach the worker at another address than --listen
  --pccs URL          TDX: address from which Intel's collateral is fetched, a PCCS or
                      https://api.trustedservices.intel.com
  --collateral FILE   TDX: JSON file with the collateral, used instead of --pccs; it is read again for each quote
  --kds URL           SEV-SNP: address from which AMD's revocation list is fetched, https://kdsintf.amd.com or a mirror
  --json              print { url, status_url, simulated_root? } as one JSON document when the worker listens

Environment variables:
  UPSTREAM_API_KEY    bearer token for the model server
  LOG_LEVEL           level of the log on standard error (default: info); the log never contains prompts or answers`,
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
    using fatal = catchFatalErrors({ destination: standardStream(2), hidesMessages: true });
    const started = await startOrPrintFaults(context, options);
    if (started === undefined) return 1;
    limitHeapGrowth();
    fatal.drain = { stop: () => started.stop(drainMs), limitMs: drainMs };
    announce(context, started);
    for (const line of warnings(options, started)) context.printToStderr(line);
    await whenAborted(context.signal);
    await started.stop(drainMs);
    return 0;
  },
};

async function startOrPrintFaults(
  context: CommandContext,
  options: WorkerOptions,
): Promise<RunningWorker | undefined> {
  try {
    const started = await startWorker(options);
    if (!isFault(started)) return started;
    context.printToStderr(`cannot get evidence (${options.evidence}): ${started.message}`);
    if (options.evidence === "auto") {
      context.printToStderr("For development without a TEE, use --evidence simulated.");
    }
  } catch (error) {
    // Only system errors of the listening address have a code.
    const code = errorCode(error);
    if (code === undefined) throw error;
    context.printToStderr(`cannot listen on ${options.host}:${options.port}: ${code}`);
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
  { host, token, collateral, revocationLists, models, upstream }: WorkerOptions,
  { evidence, listedModels }: RunningWorker,
): readonly string[] {
  const isOpen = token === undefined && !/^(127\.|localhost$|::1$)/.test(host);
  const isBare = evidence === "tdx" && collateral === undefined;
  const missing = models.filter((model) => !listedModels.includes(model));
  const isUnlisted = evidence === "sev-snp" && revocationLists === undefined;
  return [
    ...(isOpen
      ? [`Warning: without --token, anyone who can reach ${host} can use the model.`]
      : []),
    ...(isBare
      ? ["Warning: without --pccs or --collateral, gateways refuse the TDX evidence."]
      : []),
    ...(isUnlisted
      ? [
          "Warning: without --kds, gateways refuse the SEV-SNP evidence unless the host adds AMD's revocation list.",
        ]
      : []),
    ...missing.map(
      (model) =>
        `Warning: ${upstream} does not list the model "${model}", so gateways cannot use it until it does. Models listed: ${listedModels.slice(0, maxShown).map(quoted).join(", ") || "none"}.`,
    ),
  ];
}

/** A model server chooses these names, so they are printed without control characters. */
function quoted(model: string): string {
  return `"${model.slice(0, 200).replaceAll(/\p{Cc}/gu, "?")}"`;
}

function readOptions(context: CommandContext, values: OptionValues): WorkerOptions {
  const { env } = context;
  const environment = checkVariable(env["GATEWAY_ENV"] || "dev", environments, "GATEWAY_ENV");
  const level = checkVariable(env["LOG_LEVEL"] || "info", levels, "LOG_LEVEL");
  const models = optionTexts(values, "model");
  if (models === undefined) throw new UsageError("missing option --model");
  const advertise = optionText(values, "advertise");
  return {
    clock: systemClock,
    log: createLog({ level, destination: standardStream(2) }),
    upstream: checkUrl(requiredOption(values, "upstream"), "upstream", ["http:", "https:"]),
    models: [...new Set(models)].map((model) => checkName(model, "model")),
    network: checkName(requiredOption(values, "network"), "network"),
    ...readAddress(optionText(values, "listen") ?? "127.0.0.1:8090"),
    advertise: advertise && checkUrl(advertise, "advertise", ["ws:", "wss:", "http:", "https:"]),
    coefficient: readCoefficient(optionText(values, "coefficient") ?? "1000"),
    evidence: checkWord(optionText(values, "evidence") ?? "auto", sources, "evidence"),
    token: readToken(context, values),
    apiKey: env["UPSTREAM_API_KEY"] || undefined,
    simulatedAllowed: environment !== "prod" || env["CONFIDENTIAL_ALLOW_SIMULATED"] === "1",
    collateral: readCollateral(values),
    revocationLists: readKds(optionText(values, "kds")),
  };
}

function checkVariable<T extends string>(word: string, allowed: readonly T[], name: string): T {
  const found = allowed.find((each) => each === word);
  if (found !== undefined) return found;
  throw new UsageError(`${name}: ${unknownValueMessage(word, allowed)}`);
}

/** An empty option, for example from an unset shell variable, would leave the worker open to everyone. */
function readToken({ env }: CommandContext, values: OptionValues): string | undefined {
  const given = optionText(values, "token");
  if (given === "") throw new UsageError("--token: expected a token, got an empty value");
  return given ?? (env["SLUICE_WORKER_TOKEN"] || undefined);
}

function readCollateral(values: OptionValues): CollateralSource | undefined {
  const file = optionText(values, "collateral");
  const pccs = optionText(values, "pccs");
  if (file !== undefined && pccs !== undefined) {
    throw new UsageError("--pccs and --collateral cannot be used together");
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
    throw new UsageError(`--listen: expected HOST:PORT, such as 127.0.0.1:8090, got "${given}"`);
  }
  return { host, port };
}

function readCoefficient(given: string): number {
  const coefficient = /^\d{1,7}$/.test(given) ? Number(given) : NaN;
  if (!(coefficient <= maxCoefficient)) {
    throw new UsageError(
      `--coefficient: expected a whole number from 0 to ${maxCoefficient}, got "${given}"`,
    );
  }
  return coefficient;
}

function checkUrl(given: string, option: string, protocols: readonly string[]): string {
  const url = URL.parse(given);
  if (url === null || !protocols.includes(url.protocol)) {
    throw new UsageError(
      `--${option}: expected an address such as ${protocols[0]}//host, got "${given}"`,
    );
  }
  return given;
}
