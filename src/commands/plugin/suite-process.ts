/**
 * Runs the code of plugins, which can loop, leave something running, or end the process. So the command limits and
 * judges this process from outside: see `judge-package.ts`.
 */
import { messageOf } from "../../base/message-of.ts";
import type { Plugin } from "../../plugin.ts";
import { judge, type Finding } from "../../testing/suite/suite.ts";
import { findPlugins, PackageError } from "./find-plugins.ts";

/** `end`: all plugins have been judged. */
export type SuiteMessage =
  | { readonly plugin: Pick<Plugin, "name" | "kind">; readonly file: string }
  | { readonly rule: string }
  | { readonly finding: Finding }
  | { readonly thrown: string }
  | { readonly refused: string }
  | { readonly end: true };

/** Waits until the message is written, because the plugin may end the process at any time after it. */
function send(message: SuiteMessage): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()));
}

async function judgeAll(folder: string, only: readonly string[]): Promise<void> {
  for (const { plugin, loadAgain, file, example } of await findPlugins(folder)) {
    const { name, kind } = plugin;
    await send({ plugin: { name, kind }, file });
    await judge(plugin, {
      example,
      loadAgain,
      ...(only.length > 0 && { only }),
      begins: (rule) => send({ rule }),
      found: (finding) => send({ finding }),
    });
  }
}

async function report(error: unknown): Promise<void> {
  if (error instanceof PackageError) await send({ refused: error.message });
  else await send({ thrown: messageOf(error) });
}

async function fail(error: unknown): Promise<never> {
  await report(error);
  process.exit(1);
}

// The command has ended, so nothing reads the result.
process.once("disconnect", () => process.exit(1));
// An exception in a timer or a callback of the plugin.
process.on("uncaughtException", (error) => void fail(error));

async function run([folder = ".", ...only]: readonly string[]): Promise<never> {
  try {
    await judgeAll(folder, only);
    await send({ end: true });
  } catch (error) {
    await report(error);
  }
  // A plugin may have left something running, which the suite has reported.
  process.exit(0);
}

void run(process.argv.slice(2));
