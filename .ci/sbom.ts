/**
 * The software bill of materials in CycloneDX 1.6. `npm sbom` does not know what is bundled. The document has no time
 * and no serial number, so that two builds are equal.
 */
import type { UsedPackage } from "./packages.ts";

interface Published {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

export function sbomOf(own: Published, packages: readonly UsedPackage[]): object {
  const root = component({ ...own, isBundled: false });
  const components = packages
    .map((each) => ({ ...component(each), ...hashesOf(each), properties: [placeOf(each)] }))
    .toSorted((a, b) => (a.purl < b.purl ? -1 : 1))
    .filter(({ purl }, at, all) => at === 0 || all[at - 1]?.purl !== purl);
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: { component: root },
    components,
    dependencies: [{ ref: root["bom-ref"], dependsOn: components.map(({ purl }) => purl) }],
  };
}

function component({
  name,
  version,
  license,
}: Pick<UsedPackage, "name" | "version" | "license" | "isBundled">) {
  // https://github.com/package-url/purl-spec: the @ of a scope is percent-encoded.
  const purl = `pkg:npm/${name.replace(/^@/, "%40")}@${version}`;
  return {
    type: "library" as const,
    "bom-ref": purl,
    name,
    version,
    purl,
    ...(license !== undefined && { licenses: [licenseOf(license)] }),
  };
}

function licenseOf(license: string): object {
  return /^[\w.+-]+$/.test(license) ? { license: { id: license } } : { expression: license };
}

/** npm's integrity is a hash in base64, CycloneDX has hexadecimal. */
function hashesOf({ integrity = "" }: UsedPackage): object {
  const sha512 = /sha512-(\S+)/.exec(integrity)?.[1];
  if (sha512 === undefined) return {};
  return { hashes: [{ alg: "SHA-512", content: Buffer.from(sha512, "base64").toString("hex") }] };
}

function placeOf({ isBundled }: UsedPackage): object {
  return { name: "sluice:place", value: isBundled ? "bundled" : "installed" };
}
