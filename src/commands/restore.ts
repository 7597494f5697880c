import { systemClock } from "../base/clock.ts";
import { restoreBackup } from "../store/backup/restore-backup.ts";
import { fileArgument } from "./backup.ts";
import type { Command } from "./command.ts";
import { withDataFolder } from "./data-folder.ts";

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
