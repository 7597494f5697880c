import { parseDocument, visit } from "yaml";

const ownMeanings: Readonly<Record<string, string>> = {
  GATEWAY_ENV: "Environment: dev, stage or prod. Only API keys of the same environment are valid.",
  GATEWAY_SECRET:
    "Secret that signs sessions and confirmation tokens. All replicas need the same secret. Required in prod. Generate one with: openssl rand -hex 32",
  HOST: "Address on which clients connect. 0.0.0.0 means all addresses of this machine.",
  PORT: "Port on which clients connect.",
  DRAIN_DELAY_SECONDS:
    "Seconds after SIGTERM in which new connections are still accepted, so that a load balancer notices the end.",
  ADMIN_HOST:
    "Address of the dashboard, the metrics and the health checks. In a container, 0.0.0.0 lets other containers reach them.",
  ADMIN_PORT: "Port of the dashboard, the metrics and the health checks. Keep it private.",
  LOG_LEVEL: "Log level: trace, debug, info, warn, error, fatal or silent.",
  DATA_DIR: "Folder for the data. A relative path is relative to the folder of pipeline.yaml.",
  REPLICA_NAME: "Name of this gateway in the database. By default, its host name.",
  UPSTREAM_URL:
    "Address of the server behind this gateway (http or https). Separate several addresses with commas.",
};

/** `meanings`: those of the modules. Throws for a variable without a meaning, which only a wrong template can have. */
export function envExample(pipeline: string, meanings: Readonly<Record<string, string>>): string {
  const lines = [
    "# The environment variables that pipeline.yaml reads, with their defaults.",
    "# Copy this file to .env, remove the # before each variable that you set, and run: npx sluice start --env-file .env",
    "# Keep .env out of version control.",
  ];
  for (const [name, fallback] of variablesOf(pipeline)) {
    const meaning = ownMeanings[name] ?? meanings[name];
    if (meaning === undefined) throw new Error(`${name} has no meaning in .env.example`);
    lines.push("", `# ${meaning}`, `#${name}=${fallback}`);
  }
  return `${lines.join("\n")}\n`;
}

/** The defaults by name, in the order of first use. Variables in comments are ignored. */
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
