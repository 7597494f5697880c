/** Runs the contract suite on the plugins of a package, in a process of its own that has a time limit. */
import { fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { threadModule } from "../../base/package-files.ts";
import type { Plugin } from "../../plugin.ts";
import type { Finding } from "../../testing/suite/suite.ts";
import { PackageError } from "./find-plugins.ts";
import type { SuiteMessage } from "./suite-process.ts";

export interface Judged extends Pick<Plugin, "name" | "kind"> {
  /** Path relative to the folder: `./index.ts`. */
  readonly file: string;
  readonly findings: Finding[];
}

interface JudgeOptions {
  readonly signal: AbortSignal;
  readonly only?: readonly string[] | undefined;
  /** Milliseconds after which a rule's process is killed. Default: `maxRuleMs`. */
  readonly ruleMs?: number;
  /** Called with a plugin before its rules, and after each of its rules with the finding. */
  readonly onProgress?: (judged: Judged, finding?: Finding) => void;
}

const suiteModule = threadModule("src/commands/plugin/suite-process");

/** The slowest rule takes about 10 s. */
const maxRuleMs = 60_000;

/** Throws PackageError if the package has no plugins, or if they cannot be imported. */
export async function judgePackage(folder: string, options: JudgeOptions): Promise<Judged[]> {
  const { signal, only = [], onProgress = () => {}, ruleMs = maxRuleMs } = options;
  const judged: Judged[] = [];
  let rule: string | undefined;
  let thrown: string | undefined;
  let refused: string | undefined;
  let isComplete = false;
  let isLate = false;
  const addFinding = (finding: Finding): void => {
    const last = judged.at(-1);
    last?.findings.push(finding);
    if (last !== undefined) onProgress(last, finding);
  };
  // A process that is killed leaves what its gateways have stored.
  const temporary = mkdtempSync(join(tmpdir(), "sluice-suite-"));
  const child = fork(fileURLToPath(suiteModule), [folder, ...only], {
    env: { ...process.env, TMPDIR: temporary },
    // The output of the plugin must not mix with the result of the command.
    stdio: ["ignore", 2, 2, "ipc"],
  });
  const kill = (): void => void child.kill("SIGKILL");
  const limit = setTimeout(() => {
    isLate = true;
    kill();
  }, ruleMs);
  signal.addEventListener("abort", kill);
  child.on("message", (message: SuiteMessage) => {
    limit.refresh();
    if ("plugin" in message) {
      rule = undefined;
      judged.push({ ...message.plugin, file: message.file, findings: [] });
      onProgress(judged.at(-1) as Judged);
    } else if ("rule" in message) rule = message.rule;
    else if ("finding" in message) {
      rule = undefined;
      addFinding(message.finding);
    } else if ("thrown" in message) thrown = message.thrown;
    else if ("refused" in message) refused = message.refused;
    else {
      isComplete = true;
      kill();
    }
  });
  const code = await ended(child);
  rmSync(temporary, { recursive: true, force: true });
  clearTimeout(limit);
  signal.removeEventListener("abort", kill);
  if (refused !== undefined) throw new PackageError(refused);
  if (isComplete) return judged;
  const reason = isLate
    ? `it did not end within ${ruleMs / 1_000} s`
    : thrown !== undefined
      ? `an exception that nothing caught: ${thrown}`
      : `the process ended early (${code}), for example by process.exit() in a hook`;
  if (judged.length === 0) throw new PackageError(`${folder} cannot be imported: ${reason}`);
  addFinding({ rule: rule ?? "process", problems: [reason] });
  return judged;
}

/** Resolves to the exit code or the signal, after all messages have arrived. */
async function ended(child: ReturnType<typeof fork>): Promise<string> {
  const exit = Promise.withResolvers<string>();
  const disconnected = Promise.withResolvers<void>();
  child.once("exit", (code, signal) => exit.resolve(signal ?? `exit code ${code}`));
  child.once("disconnect", () => disconnected.resolve());
  const [how] = await Promise.all([exit.promise, disconnected.promise]);
  return how;
}
