/** Runs code in a separate process, like another gateway or a command. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Returns the absolute URL of a file of the project, for `import(…)` in that code. */
export function sourceUrl(path: string): string {
  return new URL(`../../${path}`, import.meta.url).href;
}

export function startModule(code: string): ChildProcess {
  return spawn(process.execPath, ["--eval", code], {
    stdio: ["pipe", "pipe", "pipe"],
  });
}

export async function runModule(
  code: string,
): Promise<{ readonly status: number | null; readonly out: string; readonly err: string }> {
  const child = startModule(code);
  let out = "";
  let err = "";
  child.stdout?.on("data", (chunk) => (out += String(chunk)));
  child.stderr?.on("data", (chunk) => (err += String(chunk)));
  const [status] = await once(child, "close");
  return { status: typeof status === "number" ? status : null, out, err };
}
