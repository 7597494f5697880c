/**
 * `sluice verify`: opens an encrypted session up to its attestation, without sending a prompt, and prints the checks.
 */
import {
  checkWord,
  optionText,
  optionTexts,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "sluice-gateway/module";
import { isObject } from "sluice-gateway/toolkit";
import { connect, ConfidentialError, createClientMemory } from "../client/client.ts";
import type { Check, ConnectOptions, Session, VerificationReport } from "../client/client.ts";
import { readSevSnp } from "../protocol/sev-snp-policy.ts";
import type { SnpMinimums, SnpPolicy } from "../verify/policy.ts";

export const verify: Command = {
  summary: "check the evidence of an encrypted network",
  help: `usage: sluice verify URL [--key KEY] [--network NAME] [--model ID] [--policy-key KEY | --image-hash HEX]…

Opens a session of the encrypted stream at URL, the address of the gateway. Checks the attestation of the session, sends
no prompt, and prints the result of every check: passed, failed or skipped. A failed check that the options accept is
printed as a warning. Exit code 0 if a client with these options would accept the session.

--key KEY               API key with the capability inference (default: SLUICE_API_KEY)
--network NAME          network to verify (default: the network of the first model of GET /v1/models with evidence)
--model ID              model to verify (default: the first model of GET /v1/models with evidence)
--termination WHERE     worker or gateway: where encryption ends (default: as in the policy document, else worker)
--policy-key KEY        public key of the operator's policy document, in base64url. The document lists what may run
--image-hash HEX        image that may run; may be given several times. "any" accepts every image
--min-tcb PRODUCT=LIST  SEV-SNP: minimum TCB of a product, such as Genoa=snp:27,microcode:84 (default: the minimum in
                        the policy document); may be given several times. "any" accepts every TCB
--without-crl           SEV-SNP: accept evidence without AMD's revocation list
--allow-simulated       accept simulated evidence, which no hardware attests
--simulated-root B64    test root of simulated evidence, as printed by sluice dev and sluice worker
--json                  print one JSON document

\`sluice verify --head\` checks the finalized heads of the nodes instead: see \`sluice verify --head --help\`.`,
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
    if (url === undefined) throw new UsageError("missing argument URL");
    if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
    const options = await readOptions(context, values, url);
    if (typeof options === "string") {
      context.printToStderr(options);
      return 1;
    }
    const outcome = await openAndClose(options);
    if (outcome === undefined) {
      context.printToStderr("stopped by a signal");
      return 1;
    }
    context.print(context.json ? JSON.stringify(outcome) : describe(outcome));
    return outcome.accepted ? 0 : 1;
  },
};

/** The document that `--json` prints. */
interface Outcome {
  readonly url: string;
  readonly network: string;
  readonly model: string;
  /** True if a client with these options would accept the session. */
  readonly accepted: boolean;
  /** True if hardware attests an accepted image. */
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

/** A check. `warn`: it failed, but the caller accepts the failure. An accepted outcome has no check with `fail`. */
type ShownCheck = Omit<Check, "result"> & { readonly result: Check["result"] | "warn" };

type Options = ConnectOptions & { readonly url: string };

/** Returns undefined if a signal stopped the command. */
async function openAndClose(options: Options): Promise<Outcome | undefined> {
  const { url, network, model } = options;
  const target = { url, network, model };
  try {
    const session = await connect(options);
    await session.close();
    return { ...target, ...accepted(session) };
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message);
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

/**
 * Shows a failed check of an open session as a warning. Only the check that --allow-simulated accepts can have failed.
 */
function tolerated(check: Check): ShownCheck {
  if (check.result !== "fail") return check;
  const why = `${check.why ?? "failed"}; accepted because --allow-simulated is set`;
  return { ...check, result: "warn", why };
}

function facts(evidence: VerificationReport | undefined): Pick<Outcome, "image_hash" | "tcb"> {
  const { imageHash, tcb } = evidence ?? {};
  return { ...(imageHash !== undefined && { image_hash: imageHash }), ...(tcb && { tcb }) };
}

/** Returns the options, or a text with the reason why there are none. */
async function readOptions(
  context: CommandContext,
  values: OptionValues,
  url: string,
): Promise<Options | string> {
  const apiKey = optionText(values, "key") ?? context.env["SLUICE_API_KEY"] ?? "";
  if (!URL.canParse(url)) throw new UsageError(`expected a URL, got "${url}"`);
  if (!/^[\x21-\x7e]+$/.test(apiKey))
    throw new UsageError("missing or invalid --key (or SLUICE_API_KEY)");
  const wanted = { network: optionText(values, "network"), model: optionText(values, "model") };
  const { network, model } = wanted;
  const target =
    network !== undefined && model !== undefined
      ? { network, model }
      : await findModel(url, apiKey, wanted, context.signal);
  if (target === undefined) {
    return "GET /v1/models lists no such model with evidence. Pass --network and --model.";
  }
  const images = optionTexts(values, "image-hash");
  const termination = optionText(values, "termination");
  const policyKey = optionText(values, "policy-key");
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
    simulatedRoots: optionTexts(values, "simulated-root") ?? [],
    memory: createClientMemory(),
    signal: context.signal,
  };
}

function readSnpPolicy(values: OptionValues): SnpPolicy {
  const given = optionTexts(values, "min-tcb");
  const minTcb = given?.includes("any") === true ? "any" : given && readMinimums(given);
  return {
    ...(minTcb !== undefined && { minTcb }),
    ...(values["without-crl"] === true && { requireCrl: false }),
  };
}

/** Parses texts such as `Genoa=snp:27,microcode:84`. */
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
    const wanted = "expected PRODUCT=PART:LEVEL,…, such as Genoa=snp:27,microcode:84";
    throw new UsageError(`--min-tcb: ${wanted}, got "${given.join(" ")}"`);
  }
  return read.min_tcb;
}

interface Target {
  readonly network: string;
  readonly model: string;
}

/** Returns the first model of the catalogue that matches `wanted` and has evidence. */
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
    const entries = isObject(body) && Array.isArray(body["data"]) ? body["data"] : [];
    for (const entry of entries as unknown[]) {
      const { id: model, network, evidence } = isObject(entry) ? entry : {};
      if (typeof model !== "string" || typeof network !== "string") continue;
      if (evidence === undefined || evidence === "none") continue;
      const isWanted = (wanted.network ?? network) === network && (wanted.model ?? model) === model;
      if (isWanted) return { network, model };
    }
  } catch {
    // The caller reports that no model was found and asks for --network and --model.
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
    assurance === "simulated" ? "SIMULATED: no hardware attests it" : `attested by ${assurance}`;
  const verdict = outcome.accepted
    ? `accepted: ${network} ${model}, encryption ends at the ${outcome.termination ?? "?"}; ${who}`
    : `refused: ${network} ${model}: ${message ?? "?"}`;
  const found = image === undefined ? [] : [`image: ${image}`];
  // Some reasons quote text of certificates, which is not trusted.
  return [...lines, ...found, verdict].map((line) => line.replaceAll(/\p{Cc}/gu, "?")).join("\n");
}
