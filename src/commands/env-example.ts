/** Writes `.env.example`: the environment variables that a pipeline.yaml reads, with their meanings and defaults. */
import { parseDocument, visit } from "yaml";

/** Meanings of all variables that the shipped file and the templates read. */
const meanings: Readonly<Record<string, string>> = {
  GATEWAY_ENV: "Environment: dev, stage or prod. Only API keys of the same environment are valid.",
  GATEWAY_SECRET:
    "Secret that signs sessions and confirmation tokens. All replicas need the same secret. Required in prod. Generate one with: openssl rand -hex 32",
  HOST: "Address on which clients connect. 0.0.0.0 means all addresses of this machine.",
  PORT: "Port on which clients connect.",
  ADMIN_HOST:
    "Address of the dashboard, the metrics and the health checks. In a container, 0.0.0.0 lets other containers reach them.",
  ADMIN_PORT: "Port of the dashboard, the metrics and the health checks. Keep it private.",
  LOG_LEVEL: "Log level: trace, debug, info, warn, error, fatal or silent.",
  DATA_DIR:
    "Folder for accounts and charges. A relative path is relative to the folder of pipeline.yaml.",
  DATABASE_URL:
    "PostgreSQL database that gets a copy of every charge, such as postgres://user:password@host/database.",
  REPLICA_NAME: "Name of this gateway in that database. By default, its host name.",
  LEDGER_RPC_URL:
    "Address of the Substrate node (http, https, ws or wss). Separate several addresses with commas.",
  UPSTREAM_URL:
    "Address of the server behind this gateway (http or https). Separate several addresses with commas.",
  CONFIDENTIAL_CLASSIC_URL:
    "Address of a server with OpenAI's chat completions API, such as http://127.0.0.1:8000.",
  CONFIDENTIAL_CLASSIC_STATUS_URL:
    "A document that lists the workers of that network and their prices.",
  CONFIDENTIAL_ALPHA_URL:
    "Address of the stream of an enclave worker, such as ws://127.0.0.1:8090/cstream/1.",
  CONFIDENTIAL_ALPHA_STATUS_URL:
    "A document that lists the workers of that network and their prices.",
  CONFIDENTIAL_EVIDENCE:
    "Source of the attestation evidence of this gateway: auto, tdx, sev-snp, dstack or simulated.",
  PRICE_PER_TOKEN_NANO: "Price of a token, in nano native tokens.",
  TOKEN_USD_RATE:
    "USD per native token: a number such as 0.25, or the URL of a JSON document with a JSON pointer, such as https://host/prices#/usd.",
};

/**
 * Returns the text of `.env.example`. Throws for a variable without a meaning, which only a wrong template can have.
 */
export function envExample(pipeline: string): string {
  const lines = [
    "# The environment variables that pipeline.yaml reads, with their defaults.",
    "# Copy this file to .env, remove the # before each variable that you set, and run: npx sluice start --env-file .env",
    "# Keep .env out of version control.",
  ];
  for (const [name, fallback] of variablesOf(pipeline)) {
    const meaning = meanings[name];
    if (meaning === undefined) throw new Error(`${name} has no meaning in .env.example`);
    lines.push("", `# ${meaning}`, `#${name}=${fallback}`);
  }
  return `${lines.join("\n")}\n`;
}

/**
 * Returns the defaults of the variables by name, in the order of their first use. Variables in comments are ignored.
 */
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
