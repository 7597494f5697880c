import {
  optionText,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
} from "sluice-gateway/internal/module";
import { isObject } from "sluice-gateway/internal/toolkit";
import { checkText } from "../client/check-meanings.ts";
import { connect, ConfidentialError, createClientMemory } from "../client/client.ts";
import type { Check, ConnectOptions, Session, VerificationReport } from "../client/client.ts";
import {
  evidenceHelp,
  evidenceOptions,
  readEvidenceOptions,
  readGateway,
} from "./evidence-options.ts";
import { printable } from "./printable.ts";

export const verify: Command = {
  summary: "check the evidence of an encrypted network",
  help: `usage: sluice verify URL [--key KEY] [--network NAME] [--model ID] [--policy-key KEY | --image-hash HEX]…

Opens a session of the encrypted stream at URL, the address of the gateway. Checks the attestation of the session, sends
no prompt, and prints the result of every check: passed, failed or skipped. A failed check that the options accept is
printed as a warning. Exit code 0 if a client with these options would accept the session.

--key KEY               API key with the capability inference (default: SLUICE_API_KEY)
--network NAME          network to verify (default: the network of the first model of GET /v1/models with evidence)
--model ID              model to verify (default: the first model of GET /v1/models with evidence)
${evidenceHelp}
--json                  print one JSON document

\`sluice verify --head\` checks the finalized heads of the nodes instead: see \`sluice verify --head --help\`.`,
  options: {
    key: { type: "string" },
    network: { type: "string" },
    model: { type: "string" },
    ...evidenceOptions,
  },
  async run(context, values, positionals) {
    const options = await readOptions(context, values, positionals);
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

interface Outcome {
  readonly url: string;
  readonly network: string;
  readonly model: string;
  readonly accepted: boolean;
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

/** `warn`: the check failed, but the caller accepts the failure. An accepted outcome has no check with `fail`. */
type ShownCheck = Omit<Check, "result"> & { readonly result: Check["result"] | "warn" };

type Options = ConnectOptions & { readonly url: string };

/** Undefined if a signal stopped the command. */
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

/** Only the check that --allow-simulated accepts can have failed in an open session. */
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
  positionals: readonly string[],
): Promise<Options | string> {
  const { url, apiKey } = readGateway(context, values, positionals);
  const wanted = { network: optionText(values, "network"), model: optionText(values, "model") };
  const { network, model } = wanted;
  const target =
    network !== undefined && model !== undefined
      ? { network, model }
      : await findModel(url, apiKey, wanted, context.signal);
  if (typeof target === "string") return target;
  return {
    url,
    apiKey,
    ...target,
    ...readEvidenceOptions(values),
    memory: createClientMemory(),
    signal: context.signal,
  };
}

interface Target {
  readonly network: string;
  readonly model: string;
}

/** Returns the first model of the catalogue that matches `wanted` and has evidence, or a text with the reason why not. */
async function findModel(
  url: string,
  apiKey: string,
  wanted: Readonly<Record<keyof Target, string | undefined>>,
  signal: AbortSignal,
): Promise<Target | string> {
  const target = new URL(url);
  target.protocol = target.protocol.replace(/^ws/, "http");
  target.pathname = `${target.pathname.replace(/(\/v1\/confidential\/stream)?\/*$/, "")}/v1/models`;
  const unread = printable(`${target.href} could not be read`);
  const hint = "Pass --network and --model.";
  try {
    const headers = { Authorization: `Bearer ${apiKey}` };
    const response = await fetch(target, { headers, signal });
    if (!response.ok) return `${unread}: status ${response.status}. ${hint}`;
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
    return signal.aborted ? "stopped by a signal" : `${unread}. ${hint}`;
  }
  return `GET /v1/models lists no such model with evidence. ${hint}`;
}

const shown = { pass: "pass   ", fail: "FAIL   ", warn: "WARN   ", skipped: "skipped" } as const;

function describe(outcome: Outcome): string {
  const { checks, network, model, assurance, message, image_hash: image } = outcome;
  const width = Math.max(...checks.map(({ name }) => name.length), 0);
  const lines = checks.map(({ name, result, why }) => {
    const text = checkText({ name, result: result === "warn" ? "fail" : result, why });
    return `${shown[result]}  ${name.padEnd(width)}  ${text}`.trimEnd();
  });
  const who =
    assurance === "simulated" ? "SIMULATED: no hardware attests it" : `attested by ${assurance}`;
  const verdict = outcome.accepted
    ? `accepted: ${network} ${model}, encryption ends at the ${outcome.termination ?? "?"}; ${who}`
    : `refused: ${network} ${model}: ${message ?? "?"}`;
  const found = image === undefined ? [] : [`image: ${image}`];
  return [...lines, ...found, verdict].map(printable).join("\n");
}
