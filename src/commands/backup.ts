import { resolve } from "node:path";
import { systemClock } from "../base/clock.ts";
import { restoreBackup } from "../store/backup/restore-backup.ts";
import { streamBackup, writeBackup } from "../store/backup/write-backup.ts";
import { version } from "../base/version.ts";
import { UsageError, type Command } from "./command.ts";
import { withDataFolder } from "./data-folder.ts";

export const backup: Command = {
  summary: "back up the data folder while the gateway runs",
  help: `usage: sluice backup FILE|- [--config FILE] [--json]

Writes the databases of the data folder (store.data) and its secret to a new archive FILE, which only you can read. All
databases are copied as they were at one moment. A gateway may run meanwhile; its writes wait for about a millisecond.
With the suffix .tgz or .gz, the archive is compressed.

With - instead of FILE, the archive goes to standard output, uncompressed, and everything else to standard error.
A database that is damaged is named, and nothing is written: the last good backup is then worth keeping.

  sluice backup /backups/sluice-monday.tgz
  kubectl exec statefulset/sluice -- /nodejs/bin/node /app/src/main.js backup - | gzip > sluice-monday.tgz

The archive contains hashes of keys and the secret that signs tokens. Keep it as private as the data folder.`,
  options: {},
  async run(context, _values, positionals) {
    const target = fileArgument(positionals, "backup");
    return withDataFolder(context, async ({ dataDir, databases, disposable, positions }) => {
      const source = {
        dataDir,
        databases: Object.keys(databases),
        disposable,
        positions: Object.keys(positions),
        version,
        now: () => systemClock.now(),
      };
      const isStream = positionals[0] === "-";
      const manifest = isStream
        ? await streamBackup(source, process.stdout, context.signal)
        : await writeBackup(source, target, context.signal);
      const print = isStream ? context.printToStderr : context.print;
      const file = isStream ? "-" : target;
      if (context.json) return print(JSON.stringify({ file, ...manifest }));
      const files = Object.keys(manifest.files).toSorted().join(", ");
      print(`${isStream ? "the archive" : file} contains ${files} as of ${manifest.takenAt}`);
    });
  },
};

export const restore: Command = {
  summary: "restore a backup into the data folder",
  help: `usage: sluice restore FILE [--config FILE] [--json]

Restores a backup that sluice backup wrote. Stop the gateway first. Every file is checked before anything changes, so
nothing changes if the archive is damaged, or if a newer release wrote it. The files that were in the data folder
(store.data) move to a folder replaced-TIME inside it; delete that folder when you no longer need it.`,
  options: {},
  async run(context, _values, positionals) {
    const archive = fileArgument(positionals, "restore");
    return withDataFolder(context, async ({ dataDir, databases, positions }) => {
      const names = Object.keys(positions);
      const target = { dataDir, databases, positions: names, now: () => systemClock.now() };
      const { manifest, replaced } = await restoreBackup(target, archive);
      if (context.json) {
        return context.print(JSON.stringify({ dataDir, replaced: replaced ?? null, ...manifest }));
      }
      context.print(`${dataDir} is restored as of ${manifest.takenAt}`);
      if (replaced !== undefined) context.print(`the previous files are in ${replaced}`);
      for (const [name, note] of Object.entries(positions)) {
        if (Object.hasOwn(manifest.files, name)) context.print(note);
      }
    });
  },
};

function fileArgument(positionals: readonly string[], command: string): string {
  const [file, extra] = positionals;
  if (file === undefined) throw new UsageError(`missing argument FILE for ${command}`);
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  return resolve(file);
}
