/** The agents, with their configuration for each API of the gateway and the command that starts them with a prompt. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { skipWithout } from "../skip-without.ts";

export type Api = "chat" | "responses" | "messages";

export interface Gateway {
  /** `http://host:port`. */
  readonly url: string;
  readonly key: string;
  readonly model: string;
}

interface Command {
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

export interface Agent {
  readonly name: string;
  readonly apis: readonly Api[];
  /** The APIs over which it asks again when a stream has broken. Over the others, it ends with an error. */
  readonly repeats: readonly Api[];
  /** The folder of its package.json: `large` is installed only by `.ci/try-agents`. */
  readonly folder: "small" | "large";
  /** Path of the program below node_modules: a script for Node, or a binary. */
  readonly program: string;
  readonly isBinary?: boolean;
  command(api: Api, gateway: Gateway, prompt: string, home: string): Command;
}

const pi: Agent = {
  name: "pi",
  apis: ["chat", "responses", "messages"],
  repeats: ["chat", "responses", "messages"],
  folder: "small",
  program: ".bin/pi",
  command(api, { url, key, model }, prompt) {
    const names = {
      chat: "openai-completions",
      responses: "openai-responses",
      messages: "anthropic-messages",
    };
    const baseUrl = api === "messages" ? url : `${url}/v1`;
    const models = [{ id: model, contextWindow: 128_000, maxTokens: 4_000 }];
    const sluice = { baseUrl, api: names[api], apiKey: key, models };
    return {
      args: ["-p", "--provider", "sluice", "--model", model, prompt],
      env: { PI_OFFLINE: "1" },
      files: { ".pi/agent/models.json": JSON.stringify({ providers: { sluice } }) },
    };
  },
};

const qwen: Agent = {
  name: "Qwen Code",
  apis: ["chat", "messages"],
  repeats: ["chat", "messages"],
  folder: "small",
  program: ".bin/qwen",
  command(api, { url, key, model }, prompt) {
    const isChat = api === "chat";
    const prefix = isChat ? "OPENAI" : "ANTHROPIC";
    const type = isChat ? "openai" : "anthropic";
    return {
      args: ["--yolo", "--auth-type", type, "-p", prompt],
      env: {
        [`${prefix}_BASE_URL`]: isChat ? `${url}/v1` : url,
        [`${prefix}_API_KEY`]: key,
        [`${prefix}_MODEL`]: model,
      },
    };
  },
};

const continueCli: Agent = {
  name: "Continue",
  apis: ["chat"],
  repeats: ["chat"],
  folder: "small",
  program: ".bin/cn",
  command(_, { url, key, model }, prompt, home) {
    const config = `name: test
version: 0.0.1
schema: v1
models:
  - { name: sluice, provider: openai, model: ${model}, apiBase: ${url}/v1, apiKey: ${key}, roles: [chat] }
`;
    return {
      args: ["-p", "--auto", "--config", join(home, "config.yaml"), prompt],
      env: { CONTINUE_TELEMETRY_ENABLED: "0" },
      files: { "config.yaml": config },
    };
  },
};

const codex: Agent = {
  name: "Codex",
  apis: ["responses"],
  repeats: ["responses"],
  folder: "large",
  program: ".bin/codex",
  command(_, { url, key, model }, prompt) {
    const config = `model = "${model}"
model_provider = "sluice"
check_for_update_on_startup = false
[model_providers.sluice]
name = "sluice"
base_url = "${url}/v1"
env_key = "SLUICE_KEY"
wire_api = "responses"
supports_websockets = true
`;
    // With `supports_websockets`, it tries a WebSocket first, and continues over HTTP after the 426.
    return {
      // The test runs it in a folder of its own, so it needs no sandbox.
      args: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt],
      env: { SLUICE_KEY: key },
      files: { ".codex/config.toml": config },
    };
  },
};

const claude: Agent = {
  name: "Claude Code",
  apis: ["messages"],
  repeats: ["messages"],
  folder: "large",
  program: "@anthropic-ai/claude-code-linux-x64/claude",
  isBinary: true,
  command: (_, { url, key, model }, prompt) => ({
    args: ["-p", prompt, "--allowedTools", "Bash"],
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_MODEL: model,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    },
  }),
};

const opencode: Agent = {
  name: "opencode",
  apis: ["chat", "responses", "messages"],
  repeats: ["chat", "responses"],
  folder: "large",
  program: "opencode-linux-x64/bin/opencode",
  isBinary: true,
  command(api, { url, key, model }, prompt) {
    const packages = {
      chat: "@ai-sdk/openai-compatible",
      responses: "@ai-sdk/openai",
      messages: "@ai-sdk/anthropic",
    };
    const options = { baseURL: `${url}/v1`, apiKey: key };
    const sluice = { npm: packages[api], options, models: { [model]: {} } };
    return {
      args: ["run", "--model", `sluice/${model}`, prompt],
      env: {
        OPENCODE_DISABLE_AUTOUPDATE: "1",
        OPENCODE_DISABLE_MODELS_FETCH: "1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
        OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      },
      files: { ".config/opencode/opencode.json": JSON.stringify({ provider: { sluice } }) },
    };
  },
};

export const agents: readonly Agent[] = [pi, qwen, continueCli, codex, claude, opencode];

function pathOf({ folder, program }: Agent): string {
  return join(import.meta.dirname, folder, "node_modules", program);
}

export function skipUninstalled(agent: Agent): string | false {
  const isInstalled = existsSync(pathOf(agent));
  return agent.folder === "large" && !isInstalled && process.env["LARGE_AGENTS"] !== "true"
    ? "needs .ci/try-agents"
    : skipWithout("`npm install --no-save --ignore-scripts` in test/agents/small", isInstalled);
}

/** Far above what an agent needs, even on a busy machine. */
const maxMs = 180_000;

/** `text`: undefined if the agent creates the file. */
export interface Task {
  readonly prompt: string;
  readonly file: string;
  readonly text?: string;
}

/** Lets an agent edit or create a file, and asserts that it succeeds. Returns the text of the file. */
export async function editWith(
  agent: Agent,
  api: Api,
  gateway: Gateway,
  { prompt, file, text: before }: Task,
): Promise<string> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-agent-"));
  const [work, home] = [join(folder.path, "work"), join(folder.path, "home")];
  for (const path of [work, home]) await mkdir(path);
  if (before !== undefined) await writeFile(join(work, file), before);
  const command = agent.command(api, gateway, prompt, home);
  const { code, output } = await runAgent(agent, pathOf(agent), command, { work, home });
  assert.equal(code, 0, output);
  assert.match(output, /All done\./);
  return readFile(join(work, file), "utf8");
}

/** Runs an agent in `work`, with an empty `home`. Returns its exit code (null if killed after `maxMs`) and output. */
async function runAgent(
  { isBinary = false }: Agent,
  path: string,
  { args, env = {}, files = {} }: Command,
  { work, home }: { readonly work: string; readonly home: string },
): Promise<{ readonly code: number | null; readonly output: string }> {
  for (const [name, contents] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true });
    await writeFile(join(home, name), contents);
  }
  // The cache of a run saves a quarter of the CPU time of a start.
  const { PATH = "", NODE_COMPILE_CACHE } = process.env;
  const cache = NODE_COMPILE_CACHE !== undefined && { NODE_COMPILE_CACHE };
  const child = spawn(isBinary ? path : process.execPath, isBinary ? args : [path, ...args], {
    cwd: work,
    env: { PATH, HOME: home, NO_COLOR: "1", ...cache, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    // Some agents start other processes, which are killed together with them.
    detached: true,
  });
  const { pid } = child;
  const endAll = (): void => {
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {
      // All of them have ended.
    }
  };
  const timer = setTimeout(endAll, maxMs);
  // Its processes may hold the pipes open after it has ended.
  child.once("exit", endAll);
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  clearTimeout(timer);
  return { code, output: out + err };
}
