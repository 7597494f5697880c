/**
 * Fails if a published package has a known vulnerability: `npm audit --json | node .ci/audit.ts`. The bundled packages
 * are devDependencies, so `npm audit --omit=dev` does not see them, and a whole audit also reports the tools of
 * development.
 */
import { text } from "node:stream/consumers";
import { publishedPackages } from "./published-packages.ts";

/** The members of npm's report (`auditReportVersion` 2) that are used here. */
interface AuditReport {
  readonly vulnerabilities?: Readonly<
    Record<string, { readonly severity: string; readonly nodes: readonly string[] }>
  >;
  /** Set if npm could not ask the registry. */
  readonly error?: { readonly summary?: string };
  readonly message?: string;
}

/** Returns a line for each vulnerable package in one of the folders. Throws if the report has no result. */
export function affected(json: string, folders: ReadonlySet<string>): string[] {
  // npm writes the report.
  const { vulnerabilities, error, message } = JSON.parse(json) as AuditReport;
  if (vulnerabilities === undefined) {
    throw new Error(`npm audit has no result: ${error?.summary || message || json.slice(0, 200)}`);
  }
  return Object.entries(vulnerabilities).flatMap(([name, { severity, nodes }]) => {
    const found = nodes.filter((node) => folders.has(node));
    return found.length === 0 ? [] : [`${name} (${severity}): ${found.join(", ")}`];
  });
}

if (import.meta.main) {
  const published = await publishedPackages();
  const lines = affected(await text(process.stdin), new Set(published.map(({ folder }) => folder)));
  for (const line of lines) console.error(line);
  console.log(`${lines.length} of ${published.length} published packages are vulnerable`);
  process.exitCode = lines.length === 0 ? 0 : 1;
}
