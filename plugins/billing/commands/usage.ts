import { setImmediate as turn } from "node:timers/promises";
import {
  checkWord,
  runSubcommand,
  optionText,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
  type Subcommand,
} from "sluice-gateway/internal/module";
import {
  checkTables,
  printFault,
  readPipeline,
  storeFault,
  withDatabase,
} from "sluice-gateway/internal/process";
import { explain } from "sluice-gateway/internal/store";
import { csvLine } from "sluice-gateway/internal/toolkit";
import { parseTime } from "sluice-gateway/services";
import { databasePages, parsePosition } from "../metering/export/database-pages.ts";
import { type ChargePages, type PageRange, folderPages } from "../metering/export/batch.ts";
import type { UsageJson } from "../metering/charge-text.ts";
import { optionOf } from "./limits.ts";

/** A signal can end a long export between two pages. */
const chargesPerPage = 500;

const exportRows: Subcommand = {
  options: ["from", "to", "after", "format"],
  arguments: [],
  async run(context, values) {
    const format = checkWord(optionText(values, "format") ?? "jsonl", ["jsonl", "csv"], "format");
    if (context.json && format === "csv") {
      throw new UsageError("--json and --format csv cannot be used together");
    }
    const range: PageRange = {
      from: instant(values, "from"),
      to: instant(values, "to"),
      after: optionText(values, "after"),
      limit: chargesPerPage,
    };
    const { config, faults } = await readPipeline(context.configFile, context.env);
    if (config === undefined || faults.length > 0) {
      for (const fault of faults) context.printToStderr(printFault(fault, process.cwd()));
      return 1;
    }
    if (config.store.postgres !== undefined) {
      return exportShared(context, range, format);
    }
    try {
      return (await print(context, folderPages(config.store.data)(range), format)).code;
    } catch (error) {
      const failed = explain(error, `charges.db in ${config.store.data}`);
      context.printToStderr(printFault(storeFault(failed, config), process.cwd()));
      return 1;
    }
  },
};

async function exportShared(
  context: CommandContext,
  range: PageRange,
  format: Format,
): Promise<0 | 1> {
  const { after = "cur_0" } = range;
  if (parsePosition(after) === undefined) {
    throw new UsageError(
      `--after: expected a position that an export has printed, such as cur_2,3:150, got "${after}"`,
    );
  }
  let code: 0 | 1 = 0;
  const opened = await withDatabase(context, async (one) => {
    await checkTables(one);
    const pages = databasePages((text, values) => one.database.query("export", text, values));
    const printed = await print(context, pages(range), format);
    ({ code } = printed);
    if (code === 0)
      context.printToStderr(`to continue later, add --after ${printed.position ?? after}`);
  });
  return opened === 0 ? code : opened;
}

type Format = "jsonl" | "csv";

/** `position`: the position after the charges. Undefined if there were none. */
async function print(
  context: CommandContext,
  pages: ReturnType<ChargePages>,
  format: Format,
): Promise<{ readonly code: 0 | 1; readonly position: string | undefined }> {
  const line = format === "csv" ? csvRow : jsonLine;
  // RFC 4180 ends lines with CR LF; `print` adds the LF.
  if (format === "csv") context.print(`${columns.join(",")}\r`);
  let printed = 0;
  let position: string | undefined;
  for await (const { charges, positionAfter } of pages) {
    for (const charge of charges) context.print(line(charge));
    printed += charges.length;
    await turn();
    if (context.signal.aborted) {
      context.printToStderr(`stopped by a signal after ${printed} charges`);
      return { code: 1, position };
    }
    position = positionAfter(charges.length);
  }
  return { code: 0, position };
}

const columns = [
  "id",
  "time",
  "workspace_id",
  "key_id",
  "surface",
  "method",
  "model",
  "request_id",
  "used_cu_milli",
  "input_tokens",
  "output_tokens",
  "estimated",
  "outcome",
] as const satisfies readonly (keyof UsageJson)[];

function jsonLine(row: UsageJson): string {
  return JSON.stringify(row);
}

function csvRow(row: UsageJson): string {
  return `${csvLine(columns.map((column) => row[column] ?? ""))}\r`;
}

function instant(values: OptionValues, option: string): number | undefined {
  return optionOf(values, option, "a time such as 2026-01-31T12:00:00Z or 2026-01-31", parseTime);
}

export const usage: Command = {
  summary: "export settled charges",
  help: `usage: sluice usage export [--from TIME] [--to TIME] [--after ID] [--format jsonl|csv]

Prints every settled charge, one per line, oldest first. A gateway may run at the same time; charges that it settles
after the export has started are not printed. If several gateways share credit in PostgreSQL, prints the charges of all,
oldest first per gateway, and at the end, on standard error, the position with which the next export can continue.

--from TIME        print charges from this time on
--to TIME          print charges before this time
--after ID         print only charges after the charge with this id; to continue an earlier export, pass its last id,
                   or the position that it has printed
--format FORMAT    jsonl (default): one JSON document per line; csv: RFC 4180 with a header line, and an apostrophe
                   before each text that a spreadsheet would run as a formula
--json             same as --format jsonl
--config FILE      path of pipeline.yaml, which has the data folder

TIME is an RFC 3339 time (2026-01-31T12:00:00Z) or a date (2026-01-31), which means 00:00 UTC.`,
  subcommands: ["export"],
  options: {
    from: { type: "string" },
    to: { type: "string" },
    after: { type: "string" },
    format: { type: "string" },
  },
  run: (...given) => runSubcommand("usage", { export: exportRows }, ...given),
};
