export interface LocalGateway {
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
