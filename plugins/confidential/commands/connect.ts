/** `sluice connect`, which runs the template `connect` of `sluice init`. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { platform } from "node:process";
import {
  checkWord,
  optionText,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "sluice-gateway/internal/module";
import { isLoopback } from "sluice-gateway/internal/http";
import { packageFile } from "sluice-gateway/internal/package-files";
import {
  catchFatalErrors,
  createLog,
  drainOf,
  runUntilStopped,
  startOrPrintFaults,
} from "sluice-gateway/internal/process";
import { parseDecimal } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import { readOptions as readSessionOptions } from "../client/options.ts";
import {
  asJson,
  asText,
  clientSettings,
  describeVerification,
  notListed,
  type Client,
} from "./connect-output.ts";
import {
  evidenceHelp,
  evidenceOptions,
  readEvidenceOptions,
  readGateway,
} from "./evidence-options.ts";
import { printable } from "./printable.ts";
import { whenAborted } from "../evidence/provider.ts";

// The object has no other keys.
const clients = Object.keys(clientSettings) as Client[];

/** Services that would open stores and threads: the other gateway has the accounts, and the page is here. */
const without = ["accounts", "metering", "dashboard", "alerts"];

/** Other programs of this machine may use these variables. A gateway that has no such store refuses to start with them. */
const noStores = { DATABASE_URL: "", DATABASE_URL_FILE: "", REDIS_URL: "", REDIS_URL_FILE: "" };

/** The pattern of `key` of the step `local-access`. */
const keyPattern = /^[\x21-\x7e]{16,256}$/;

export const connect: Command = {
  summary: "use an encrypted network from this machine, verified",
  help: `usage: sluice connect URL [--key KEY] [--network NAME] [--model ID] [--policy-key KEY | --image-hash HEX]…
                      [--port 8117] [--key-file FILE] [--configure NAME] [--max-price NANO] [--json]

Serves the models of an encrypted network to programs of this machine: chat completions, responses, messages and the
list of models. Verifies the enclaves of the gateway at URL, encrypts each request to them, and checks each bill. Nothing
is ever sent in plain text. If a check fails at the start, the exit code is 1; later, requests get 502 with its name.
On SIGTERM and SIGINT, running requests finish, and the exit code is 0. A page at / shows what was verified and billed.

--key KEY               API key of the gateway, with the capability inference (default: SLUICE_API_KEY)
--network NAME          network of the gateway (default: every network with evidence)
--model ID              model that is verified at the start, and that also answers for names that the gateway does not
                        list (default: the first model is verified, and other names get 404)
--port PORT             port on 127.0.0.1 (default: 8117)
--key-file FILE         file with the key of local programs; it is created if it is missing (default: a new key)
--configure NAME        print the settings of a program: ${clients.join(", ")}
--max-price NANO        highest price of a token, in nano native tokens
${evidenceHelp}
                        (--without-crl needs --min-tcb, and --allow-simulated needs --simulated-root)
--json                  print one JSON document when programs can connect`,
  options: {
    key: { type: "string" },
    network: { type: "string" },
    model: { type: "string" },
    port: { type: "string" },
    "key-file": { type: "string" },
    configure: { type: "string" },
    "max-price": { type: "string" },
    ...evidenceOptions,
  },
  async run(context, values, positionals) {
    const options = readOptions(context, values, positionals);
    for (const warning of warnings(options)) context.printToStderr(`warning: ${warning}`);
    const folder = mkdtempSync(join(tmpdir(), "sluice-connect-"));
    try {
      return await serve(context, options, folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

interface Options {
  readonly url: string;
  readonly model: string | undefined;
  readonly localKey: string;
  readonly keyFile: string | undefined;
  readonly client: Client | undefined;
  readonly variables: Readonly<Record<string, string>>;
  readonly evidence: object;
}

function readOptions(
  context: CommandContext,
  values: OptionValues,
  positionals: readonly string[],
): Options {
  const target = readGateway(context, values, positionals);
  const port = optionText(values, "port") ?? "8117";
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new UsageError(`--port: expected a port from 0 to 65535, got "${port}"`);
  }
  const maxPrice = optionText(values, "max-price") ?? "";
  if (maxPrice !== "" && parseDecimal(maxPrice) === undefined) {
    throw new UsageError(`--max-price: expected a decimal such as 12.5, got "${maxPrice}"`);
  }
  const client = optionText(values, "configure");
  const accepted = readEvidenceOptions(values);
  const [network = "", model] = [optionText(values, "network"), optionText(values, "model")];
  const names = { network: network || "any", model: model ?? "any" };
  const { base: url } = checkedBy(() => readSessionOptions({ ...target, ...names, ...accepted }));
  const keyFile = optionText(values, "key-file");
  return {
    url,
    model,
    keyFile,
    localKey: keyFile === undefined ? newKey() : keyIn(keyFile),
    client: client === undefined ? undefined : checkWord(client, clients, "configure"),
    evidence: evidenceOf(accepted),
    variables: {
      PORT: port,
      SLUICE_URL: url,
      SLUICE_API_KEY: target.apiKey,
      SLUICE_NETWORK: network,
      SLUICE_MODEL: model ?? "",
      SLUICE_TERMINATION: accepted.termination ?? "",
      SLUICE_POLICY_KEY: accepted.policyKey ?? "",
      SLUICE_MAX_PRICE: maxPrice,
    },
  };
}

function warnings({ url, keyFile }: Options): string[] {
  const { protocol, hostname } = new URL(url);
  const found: string[] = [];
  if (protocol === "http:" && !isLoopback(hostname)) {
    found.push(`${url} has no TLS, so anyone on the way can read the API key`);
  }
  // Windows has no such permissions.
  if (keyFile !== undefined && platform !== "win32" && (statSync(keyFile).mode & 0o077) !== 0) {
    found.push(`other users can read ${keyFile}: chmod 600 is missing`);
  }
  return found;
}

function checkedBy<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof TypeError ? new UsageError(error.message) : error;
  }
}

/** At least one of the options must say what may run. */
function evidenceOf(accepted: ReturnType<typeof readEvidenceOptions>): object {
  const { policyKey, imageHashes, allowSimulated, simulatedRoots = [], sevSnp = {} } = accepted;
  const isSimulated = allowSimulated === true;
  if (policyKey === undefined && imageHashes === undefined && !isSimulated) {
    throw new UsageError(
      "nothing says which images may run: pass --policy-key, --image-hash, or --allow-simulated",
    );
  }
  if (isSimulated && simulatedRoots.length === 0) {
    throw new UsageError("--allow-simulated needs --simulated-root");
  }
  const { minTcb, requireCrl = true } = sevSnp;
  if (minTcb === undefined && !requireCrl) throw new UsageError("--without-crl needs --min-tcb");
  return {
    ...(isSimulated && { kind: "simulated", roots: simulatedRoots }),
    ...(imageHashes !== undefined && { image_hashes: imageHashes }),
    ...(minTcb !== undefined && { sev_snp: { min_tcb: minTcb, require_crl: requireCrl } }),
  };
}

function newKey(): string {
  return `local_${randomBytes(24).toString("base64url")}`;
}

/** A missing file is created with a new key. */
function keyIn(file: string): string {
  try {
    const key = newKey();
    writeFileSync(file, `${key}\n`, { flag: "wx", mode: 0o600 });
    return key;
  } catch (error) {
    if (!isObject(error) || error["code"] !== "EEXIST") {
      throw new UsageError(`--key-file: cannot write ${file}`);
    }
  }
  let key: string;
  try {
    key = readFileSync(file, "utf8").trim();
  } catch {
    throw new UsageError(`--key-file: cannot read ${file}`);
  }
  if (keyPattern.test(key)) return key;
  throw new UsageError(
    `--key-file: ${file} does not contain a key of 16 to 256 printable characters`,
  );
}

async function serve(context: CommandContext, options: Options, folder: string): Promise<0 | 1> {
  const { variables, model, localKey, evidence } = options;
  const template = readFileSync(packageFile("plugins/confidential/templates/connect.yaml"), "utf8");
  const configFile = join(folder, "pipeline.yaml");
  // JSON is YAML. Dollar signs would read variables.
  const json = JSON.stringify(evidence).replaceAll("$", String.raw`\u0024`);
  writeFileSync(
    configFile,
    template.replace("evidence: {}", () => `evidence: ${json}`),
  );
  using fatal = catchFatalErrors({ destination: process.stderr, hidesMessages: true });
  const level = context.env["LOG_LEVEL"] || "warn";
  const own = { DATA_DIR: folder, ADMIN_PORT: "0", LOG_LEVEL: level, SLUICE_LOCAL_KEY: localKey };
  const env = { ...context.env, ...noStores, ...variables, ...own };
  const destination = {
    write: (line: string) => context.printToStderr(logText(line, context.json)),
  };
  const log = createLog({ level, destination });
  const gateway = await startOrPrintFaults({ ...context, env, configFile }, { log, without });
  if (gateway === undefined) return 1;
  fatal.drain = drainOf(gateway);
  try {
    const networks = gateway.use("sealed-networks");
    const verification = await Promise.race([networks?.verify(model), whenAborted(context.signal)]);
    // The other gateway may not answer at all, so a stop does not wait for it.
    if (context.signal.aborted) return 0;
    if (verification === undefined || verification.failedCheck !== undefined) {
      context.printToStderr(
        verification === undefined
          ? notListed(options, networks?.listFault)
          : describeVerification(verification),
      );
      return 1;
    }
    const local = { url: gateway.url, key: localKey, model: verification.model };
    context.print(
      context.json ? asJson(local, verification, options) : asText(local, verification, options),
    );
    await runUntilStopped(gateway, context.signal);
    return 0;
  } finally {
    await gateway.stop();
  }
}

function logText(line: string, isJson: boolean): string {
  if (isJson) return line.trimEnd();
  // The log writes JSON objects.
  const entry = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const { level: _level, time, msg, ...facts } = entry;
  const more = Object.entries(facts).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const at = new Date(Number(time)).toISOString();
  return printable(`${at} ${String(msg)} ${more.join(", ")}`.trimEnd());
}
