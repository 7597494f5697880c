/**
 * Fails if a published package has a known vulnerability that is not accepted below:
 * `npm audit --json | node .ci/audit.ts`. The bundled packages are devDependencies, so `npm audit --omit=dev` does not
 * see them, and a whole audit also reports the tools of development.
 */
import { text } from "node:stream/consumers";
import { publishedPackages } from "./published-packages.ts";

/** Advisories that do not affect Sluice, with the reason. Remove those that the audit reports as outdated. */
const acceptedAdvisories: Readonly<Record<string, string>> = {
  "GHSA-848j-6mx2-7j84":
    "elliptic can make a faulty ECDSA signature. Sluice does not sign with it: @phala/dcap-qvl only verifies. There is no fixed version.",
};

interface Advisory {
  readonly source: number;
  readonly url?: string;
}

interface Vulnerability {
  readonly severity: string;
  readonly nodes: readonly string[];
  /** Advisories about the package, and the names of vulnerable packages that it depends on. */
  readonly via: readonly (Advisory | string)[];
}

type Vulnerabilities = Readonly<Record<string, Vulnerability>>;

/** Part of npm's report (`auditReportVersion` 2). */
interface AuditReport {
  readonly vulnerabilities?: Vulnerabilities;
  /** Set if npm could not ask the registry. */
  readonly error?: { readonly summary?: string };
  readonly message?: string;
}

interface AuditResult {
  /** A line for each vulnerable package with an advisory that is not accepted. */
  readonly vulnerable: readonly string[];
  /** Ids of the accepted advisories that do not affect any of the folders. */
  readonly outdated: readonly string[];
}

/** `accepted`: ids of advisories. Throws if npm's report has no result. */
export function auditResult(
  json: string,
  folders: ReadonlySet<string>,
  accepted: readonly string[],
): AuditResult {
  // npm writes the report.
  const { vulnerabilities, error, message } = JSON.parse(json) as AuditReport;
  if (vulnerabilities === undefined) {
    throw new Error(`npm audit has no result: ${error?.summary || message || json.slice(0, 200)}`);
  }
  const outdated = new Set(accepted);
  const vulnerable = Object.entries(vulnerabilities).flatMap(([name, { severity, nodes }]) => {
    const found = nodes.filter((node) => folders.has(node));
    if (found.length === 0) return [];
    const ids = advisoriesOf(name, vulnerabilities);
    for (const id of ids) outdated.delete(id);
    const open = ids.filter((id) => !accepted.includes(id));
    // A report that does not name the advisories of a package must not hide the package.
    if (open.length === 0 && ids.length > 0) return [];
    return [`${name} (${severity}): ${[...open, ...found].join(", ")}`];
  });
  return { vulnerable, outdated: [...outdated] };
}

/** Returns the advisories about a package and about the packages that it depends on. */
function advisoriesOf(name: string, vulnerabilities: Vulnerabilities): string[] {
  const names = new Set([name]);
  const ids = new Set<string>();
  // The loop also reaches the names that are added while it runs.
  for (const each of names) {
    for (const via of vulnerabilities[each]?.via ?? []) {
      if (typeof via === "string") names.add(via);
      else ids.add(/GHSA(?:-\w{4}){3}$/.exec(via.url ?? "")?.[0] ?? String(via.source));
    }
  }
  return [...ids];
}

if (import.meta.main) {
  const published = await publishedPackages();
  const folders = new Set(published.map(({ folder }) => folder));
  const accepted = Object.keys(acceptedAdvisories);
  const { vulnerable, outdated } = auditResult(await text(process.stdin), folders, accepted);
  for (const line of vulnerable) console.error(line);
  for (const id of outdated) {
    console.error(`${id} no longer affects a published package: remove it from .ci/audit.ts`);
  }
  console.log(`${vulnerable.length} of ${published.length} published packages are vulnerable`);
  process.exitCode = vulnerable.length === 0 ? 0 : 1;
}
