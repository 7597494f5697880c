/** Commands that are refused because of their arguments. */
import assert from "node:assert/strict";
import { UsageError, type Command } from "../../../../src/commands/command.ts";
import type { CommandLine } from "../../../commands/command-line.ts";

/**
 * Runs each command of a table, whose lines have the arguments and a part of the message. `words`: arguments that stand
 * for others; the arguments `NONE` are none.
 */
export async function assertRefused(
  { run }: Pick<CommandLine, "run">,
  command: Command,
  words: Readonly<Record<string, readonly string[]>>,
  table: string,
): Promise<void> {
  const known = new Map(Object.entries({ NONE: [], ...words }));
  for (const row of table.trim().split("\n")) {
    const [text = "", message = ""] = row.split("|").map((cell) => cell.trim());
    const argv = text.split(" ").flatMap((word) => known.get(word) ?? [word]);
    const isRefused = (error: unknown): boolean =>
      error instanceof UsageError && error.message.includes(message);
    await assert.rejects(run(command, ...argv), isRefused, text);
  }
}
