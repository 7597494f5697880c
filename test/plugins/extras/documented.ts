import { readFileSync } from "node:fs";
import { join } from "node:path";

const head = `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }

`;

/** Returns the first example of a README as a complete pipeline.yaml. */
export function documentedPipeline(plugin: string): string {
  const folder = join(import.meta.dirname, "../../../plugins/extras");
  const readme = readFileSync(join(folder, plugin, "README.md"), "utf8");
  return head + (/```yaml\n(.*?)```/s.exec(readme)?.[1] ?? "");
}
