/** The texts that `sluice connect` prints. */
import { checkText } from "../client/check-meanings.ts";
import type { Verification } from "../sealed-networks/verification.ts";
import { printable } from "./printable.ts";

interface LocalGateway {
  readonly url: string;
  readonly key: string;
  readonly model: string;
}

/** The settings for each program: the text of a file, or shell commands. */
export const clientSettings = {
  codex: ({ url, key, model }: LocalGateway) => `# ~/.codex/config.toml
model = ${JSON.stringify(model)}
model_provider = "sluice"

[model_providers.sluice]
name = "Sluice"
base_url = "${url}/v1"
env_key = "SLUICE_LOCAL_KEY"
wire_api = "responses"

# In the shell:
export SLUICE_LOCAL_KEY=${quoted(key)}`,
  claude: ({ url, key, model }: LocalGateway) => `export ANTHROPIC_BASE_URL=${url}
export ANTHROPIC_AUTH_TOKEN=${quoted(key)}
export ANTHROPIC_MODEL=${quoted(model)}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=$ANTHROPIC_MODEL
export ANTHROPIC_DEFAULT_SONNET_MODEL=$ANTHROPIC_MODEL
export ANTHROPIC_DEFAULT_OPUS_MODEL=$ANTHROPIC_MODEL
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1`,
  opencode: ({ url, key, model }: LocalGateway) => {
    const options = { baseURL: `${url}/v1`, apiKey: key };
    const sluice = { npm: "@ai-sdk/openai-compatible", options, models: { [model]: {} } };
    return JSON.stringify({ model: `sluice/${model}`, provider: { sluice } }, null, 2);
  },
  openai: ({ url, key }: LocalGateway) => `export OPENAI_BASE_URL=${url}/v1
export OPENAI_API_KEY=${quoted(key)}`,
  env: ({ url, key, model }: LocalGateway) => `OPENAI_BASE_URL=${quoted(`${url}/v1`)}
OPENAI_API_KEY=${quoted(key)}
ANTHROPIC_BASE_URL=${quoted(url)}
ANTHROPIC_AUTH_TOKEN=${quoted(key)}
SLUICE_MODEL=${quoted(model)}`,
} as const;

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export type Client = keyof typeof clientSettings;

interface Target {
  /** The other gateway. */
  readonly url: string;
  readonly model: string | undefined;
  readonly client: Client | undefined;
}

export function describeVerification(verification: Verification): string {
  const { failedCheck, assurance, termination, machine, firmware, image, keyset } = verification;
  const { since, until, checks } = verification;
  const verdict =
    failedCheck !== undefined
      ? `refused: the check ${failedCheck}`
      : assurance === "simulated"
        ? "SIMULATED: no hardware attests the enclave. Only tests should accept it."
        : "verified: the answers come from an enclave that hardware attests.";
  const date = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(ms).toISOString();
  const lines = {
    machine: machine && (failedCheck === undefined ? `${assurance} ${machine}` : machine),
    firmware,
    image,
    keys: keyset,
    "ends at": termination && `the ${termination}`,
    since: date(since),
    until: until === undefined ? undefined : `${date(until) ?? ""}; checked again before`,
  };
  const labels = {
    pass: "passed",
    fail: failedCheck === undefined ? "accepted" : "failed",
    skipped: "skipped",
  };
  const listed = (["pass", "fail", "skipped"] as const).flatMap((wanted) =>
    checks
      .filter(({ result }) => result === wanted)
      .map((check) => [labels[wanted], `${check.name}: ${checkText(check)}`] as const),
  );
  const shown = [...Object.entries(lines), ...listed].filter(([, text]) => text !== undefined);
  return [verdict, "", ...shown.map(([label, text]) => `  ${label.padEnd(12)}${text ?? ""}`)]
    .map((line) => printable(line))
    .join("\n");
}

export function notListed({ url, model }: Target, listFault: string | undefined): string {
  if (listFault !== undefined) {
    return printable(
      `refused: ${url}/v1/models could not be read: ${listFault}. Nothing was sent.`,
    );
  }
  const what = model === undefined ? "no model" : `no model ${model}`;
  return printable(
    `refused: ${url}/v1/models lists ${what} with evidence, so nothing there can be verified. Nothing was sent.\nIf the gateway itself ends the encryption, pass --network.`,
  );
}

export function asJson(
  local: LocalGateway,
  verification: Verification,
  { client }: Target,
): string {
  const configuration = client && clientSettings[client](local);
  return JSON.stringify({ ...local, verification, configuration });
}

export function asText(
  local: LocalGateway,
  verification: Verification,
  { url, client }: Target,
): string {
  const { network, model } = verification;
  const settings = client === undefined ? [] : ["", clientSettings[client](local)];
  return [
    describeVerification(verification),
    "",
    `Programs of this machine can use ${printable(`${model} (network ${network} of ${url})`)}:`,
    "",
    `  OpenAI      ${local.url}/v1`,
    `  Anthropic   ${local.url}`,
    `  key         ${local.key}`,
    `  page        ${local.url}/`,
    ...settings,
    "",
    "Press Ctrl-C to stop.",
  ].join("\n");
}
