/**
 * `sluice verify`: opens an encrypted session as far as its attestation, sends nothing, and prints what was checked.
 */
import { connect, ConfidentialError, createClientMemory } from "../client/client.ts";
import type { Check, ConnectOptions, Session, VerificationReport } from "../client/client.ts";
import { readSevSnp } from "../confidential/sev-snp-policy.ts";
import { isJsonObject } from "../confidential/strict-json.ts";
import type { SnpMinimums, SnpPolicy } from "../confidential/verify/policy.ts";
import { UsageError, type Command, type CommandContext, type OptionValues } from "./command.ts";
import { checkWord, text, texts } from "./option.ts";

export const verify: Command = {
  summary: "check the evidence of an encrypted network",
  help: `usage: sluice verify URL [--key KEY] [--network NAME] [--model ID] [--policy-key KEY | --image-hash HEX]…

Opens a session of the encrypted stream at the gateway URL as far as its attestation, sends no prompt, and prints every
check: passed, failed, skipped or, where the options accept the failure, a warning. Exit code 0: a client with these
options would accept the session.

--key KEY               an API key with the capability inference; else SLUICE_API_KEY
--network NAME          unless given, the first of GET /v1/models that has evidence
--model ID              likewise
--termination WHERE     worker or gateway; unless given the policy document's, else worker
--policy-key KEY        base64url: the key of the operator's policy document, which then says what may run
--image-hash HEX        an image that may run; several times for several, "any" for any
--min-tcb PRODUCT=LIST  SEV-SNP: the minimum TCB of a product, such as Genoa=snp:27,microcode:84; several times for
                        several products. "any" accepts every TCB. Unless given, the policy document's
--without-crl           SEV-SNP: accept evidence without AMD's revocation list
--allow-simulated       accept evidence that no hardware vouches for
--simulated-root B64    the test root of such evidence, as sluice dev and sluice worker print it
--json                  one JSON document`,
  options: {
    key: { type: "string" },
    network: { type: "string" },
    model: { type: "string" },
    termination: { type: "string" },
    "policy-key": { type: "string" },
    "image-hash": { type: "string", multiple: true },
    "min-tcb": { type: "string", multiple: true },
    "without-crl": { type: "boolean" },
    "allow-simulated": { type: "boolean" },
    "simulated-root": { type: "string", multiple: true },
  },
  async run(context, values, [url, extra]) {
    if (url === undefined) throw new UsageError("verify: URL is missing");
    if (extra !== undefined) throw new UsageError(`verify: unexpected argument "${extra}"`);
    const options = await readOptions(context, values, url);
    if (typeof options === "string") {
      context.complain(options);
      return 1;
    }
    const outcome = await openAndClose(options);
    if (outcome === undefined) {
      context.complain("stopped");
      return 1;
    }
    context.print(context.json ? JSON.stringify(outcome) : describe(outcome));
    return outcome.accepted ? 0 : 1;
  },
};

/** What is printed with `--json`. */
interface Outcome {
  readonly url: string;
  readonly network: string;
  readonly model: string;
  /** A client with these options would go on. */
  readonly accepted: boolean;
  /** Hardware vouches for an accepted image. */
  readonly verified: boolean;
  readonly assurance: string;
  readonly termination?: string;
  readonly keyset?: string;
  readonly code?: string;
  readonly message?: string;
  readonly image_hash?: string;
  readonly tcb?: VerificationReport["tcb"];
  readonly checks: readonly ShownCheck[];
}

/** `warn`: the check failed, and the caller accepts that. No accepted outcome has a check that failed. */
type ShownCheck = Omit<Check, "result"> & { readonly result: Check["result"] | "warn" };

type Options = ConnectOptions & { readonly url: string };

/** Undefined: the signal came first. */
async function openAndClose(options: Options): Promise<Outcome | undefined> {
  const { url, network, model } = options;
  const target = { url, network, model };
  try {
    const session = await connect(options);
    await session.close();
    return { ...target, ...accepted(session) };
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(`verify: ${error.message}`);
    if (!(error instanceof ConfidentialError)) {
      if (options.signal?.aborted === true) return undefined;
      throw error;
    }
    const { code, message, checks = [], evidence } = error;
    const verdict = { accepted: false, verified: false, assurance: "none" };
    return { ...target, ...verdict, code, message, ...facts(evidence), checks };
  }
}

function accepted(session: Session): Omit<Outcome, "url" | "network" | "model"> {
  const { evidence, assurance, termination, keyset, checks } = session;
  const verdict = { accepted: true, verified: evidence.verified, assurance };
  return { ...verdict, termination, keyset, ...facts(evidence), checks: checks.map(tolerated) };
}

/** A session that was opened has one check at most that failed: the one that --allow-simulated tolerates. */
function tolerated(check: Check): ShownCheck {
  if (check.result !== "fail") return check;
  const why = `${check.why ?? "failed"}; accepted because --allow-simulated is set`;
  return { ...check, result: "warn", why };
}

function facts(evidence: VerificationReport | undefined): Pick<Outcome, "image_hash" | "tcb"> {
  const { imageHash, tcb } = evidence ?? {};
  return { ...(imageHash !== undefined && { image_hash: imageHash }), ...(tcb && { tcb }) };
}

/** Why there are none comes as text. */
async function readOptions(
  context: CommandContext,
  values: OptionValues,
  url: string,
): Promise<Options | string> {
  const apiKey = text(values, "key") ?? context.env["SLUICE_API_KEY"] ?? "";
  if (!URL.canParse(url)) throw new UsageError(`verify: "${url}" is not a URL`);
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new UsageError("verify: --key is missing");
  const wanted = { network: text(values, "network"), model: text(values, "model") };
  const { network, model } = wanted;
  const target =
    network !== undefined && model !== undefined
      ? { network, model }
      : await findModel(url, apiKey, wanted, context.signal);
  if (target === undefined) {
    return "GET /v1/models names no such model with evidence: say --network and --model";
  }
  const images = texts(values, "image-hash");
  const termination = text(values, "termination");
  const policyKey = text(values, "policy-key");
  return {
    url,
    apiKey,
    ...target,
    ...(termination !== undefined && {
      termination: checkWord(termination, ["worker", "gateway"] as const, "termination"),
    }),
    ...(policyKey !== undefined && { policyKey }),
    ...(images !== undefined && { imageHashes: images.includes("any") ? "any" : images }),
    sevSnp: readSnpPolicy(values),
    allowSimulated: values["allow-simulated"] === true,
    simulatedRoots: texts(values, "simulated-root") ?? [],
    memory: createClientMemory(),
    signal: context.signal,
  };
}

function readSnpPolicy(values: OptionValues): SnpPolicy {
  const given = texts(values, "min-tcb");
  const minTcb = given?.includes("any") === true ? "any" : given && readMinimums(given);
  return {
    ...(minTcb !== undefined && { minTcb }),
    ...(values["without-crl"] === true && { requireCrl: false }),
  };
}

/** `given`: texts such as `Genoa=snp:27,microcode:84`. */
function readMinimums(given: readonly string[]): SnpMinimums {
  const products = given.map((each) => {
    const [product = "", list = ""] = each.split("=", 2);
    const parts = list.split(",").map((part) => {
      const [name = "", level = ""] = part.split(":", 2);
      return [name, /^\d{1,3}$/.test(level) ? Number(level) : level] as const;
    });
    return [product, Object.fromEntries(parts)] as const;
  });
  const read = readSevSnp({ min_tcb: Object.fromEntries(products) });
  if (typeof read === "string" || read.min_tcb === "any") {
    const example = "expected PRODUCT=PART:LEVEL,…, such as Genoa=snp:27,microcode:84";
    throw new UsageError(`verify: --min-tcb "${given.join(" ")}" cannot be read; ${example}`);
  }
  return read.min_tcb;
}

interface Target {
  readonly network: string;
  readonly model: string;
}

/** The first model of the catalogue that fits and says that it has evidence. */
async function findModel(
  url: string,
  apiKey: string,
  wanted: Readonly<Record<keyof Target, string | undefined>>,
  signal: AbortSignal,
): Promise<Target | undefined> {
  const target = new URL(url);
  target.protocol = target.protocol.replace(/^ws/, "http");
  target.pathname = `${target.pathname.replace(/(\/v1\/confidential\/stream)?\/*$/, "")}/v1/models`;
  try {
    const headers = { Authorization: `Bearer ${apiKey}` };
    const response = await fetch(target, { headers, signal });
    const body: unknown = await response.json();
    const entries = isJsonObject(body) && Array.isArray(body["data"]) ? body["data"] : [];
    for (const entry of entries as unknown[]) {
      const { id: model, network, evidence } = isJsonObject(entry) ? entry : {};
      if (typeof model !== "string" || typeof network !== "string") continue;
      if (evidence === undefined || evidence === "none") continue;
      const isWanted = (wanted.network ?? network) === network && (wanted.model ?? model) === model;
      if (isWanted) return { network, model };
    }
  } catch {
    // As where it names none: the caller can.
  }
  return undefined;
}

const shown = { pass: "pass   ", fail: "FAIL   ", warn: "WARN   ", skipped: "skipped" } as const;

function describe(outcome: Outcome): string {
  const { checks, network, model, assurance, message, image_hash: image } = outcome;
  const width = Math.max(...checks.map(({ name }) => name.length), 0);
  const lines = checks.map(({ name, result, why = "" }) =>
    `${shown[result]}  ${name.padEnd(width)}  ${why}`.trimEnd(),
  );
  const who =
    assurance === "simulated"
      ? "SIMULATED: no hardware vouches for it"
      : `${assurance} vouches for it`;
  const verdict = outcome.accepted
    ? `accepted: ${network} ${model}, ends at the ${outcome.termination ?? "?"}; ${who}`
    : `refused: ${network} ${model}: ${message ?? "?"}`;
  const found = image === undefined ? [] : [`image: ${image}`];
  // Some of the reasons quote certificates, which a stranger wrote.
  return [...lines, ...found, verdict].map((line) => line.replaceAll(/\p{Cc}/gu, "?")).join("\n");
}
