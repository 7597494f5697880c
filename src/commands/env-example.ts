/** `.env.example`: the environment variables that a pipeline.yaml reads, with their defaults and what they mean. */
import { parseDocument, visit } from "yaml";

/** What each variable of the shipped file and of the templates means. */
const meanings: Readonly<Record<string, string>> = {
  GATEWAY_ENV: "dev, stage or prod. Only API keys of the same environment are valid.",
  GATEWAY_SECRET:
    "Signs sessions and confirmation tokens; the same text on every replica. Required in prod. Generate one with: openssl rand -hex 32",
  HOST: "The address on which clients connect. 0.0.0.0 means every address of this machine.",
  PORT: "The port on which clients connect.",
  ADMIN_PORT: "The port of the dashboard, the metrics and the health checks. Keep it private.",
  LOG_LEVEL: "trace, debug, info, warn, error, fatal or silent.",
  DATA_DIR: "The folder for accounts and charges. A relative path starts at pipeline.yaml.",
  LEDGER_RPC_URL: "The Substrate node, or several separated by commas: http, https, ws or wss.",
  UPSTREAM_URL: "The server behind this gateway, or several separated by commas: http or https.",
  CONFIDENTIAL_CLASSIC_URL:
    "A server that speaks OpenAI's chat completions, such as http://127.0.0.1:8000.",
  CONFIDENTIAL_CLASSIC_STATUS_URL:
    "A document that lists the workers of that network and their prices.",
  CONFIDENTIAL_ALPHA_URL: "The stream of an enclave worker, such as ws://127.0.0.1:8090/cstream/1.",
  CONFIDENTIAL_ALPHA_STATUS_URL:
    "A document that lists the workers of that network and their prices.",
  CONFIDENTIAL_EVIDENCE: "Who attests this gateway: auto, tdx, sev-snp, dstack or simulated.",
  PRICE_PER_TOKEN_NANO: "The price of a token, in nano native tokens.",
  TOKEN_USD_RATE:
    "USD per native token: a number such as 0.25, or a URL with a JSON pointer: https://host/prices#/usd",
};

/** Throws for a variable without a meaning: the templates are our own. */
export function envExample(pipeline: string): string {
  const lines = [
    "# The environment variables that pipeline.yaml reads, with their defaults.",
    "# Copy this file to .env, remove the # before what you set, and start with: npx sluice start --env-file .env",
    "# Keep .env out of version control.",
  ];
  for (const [name, fallback] of variablesOf(pipeline)) {
    const meaning = meanings[name];
    if (meaning === undefined) throw new Error(`${name} has no meaning in .env.example`);
    lines.push("", `# ${meaning}`, `#${name}=${fallback}`);
  }
  return `${lines.join("\n")}\n`;
}

/** The variables with their defaults, in the order in which the file reads them first. Comments do not count. */
function variablesOf(pipeline: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  visit(parseDocument(pipeline), {
    Scalar(_, { value }) {
      if (typeof value !== "string") return;
      for (const [, name = "", fallback = ""] of value.matchAll(/\$\{(\w+)(?::-([^}]*))?\}/g)) {
        if (!found.has(name)) found.set(name, fallback);
      }
    },
  });
  return found;
}
