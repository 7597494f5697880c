import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { parseAllDocuments } from "yaml";
import { skipWithout } from "../../skip-without.ts";

export const root = join(import.meta.dirname, "../../..");
export const chart = join(root, "deploy/chart");
const gopath = "/usr/share/gocode";
const hasGo =
  spawnSync("go", ["version"]).error === undefined &&
  existsSync(join(gopath, "src/github.com/Masterminds/sprig"));
export const skip = skipWithout("Go with its packages yaml.v3 and sprig", hasGo);
const folder = mkdtempSync(join(tmpdir(), "sluice-chart-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const renderer = join(folder, "render");
if (hasGo) {
  const env = { ...process.env, GO111MODULE: "off", GOPATH: gopath, GOFLAGS: "" };
  const source = join(import.meta.dirname, "render.go");
  execFileSync("go", ["build", "-o", renderer, source], {
    env: { ...env, GOCACHE: join(folder, "cache") },
  });
}

export type Labels = Readonly<Record<string, string>>;

export interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly replicas?: number;
    readonly groups?: unknown;
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly ports?: readonly { readonly targetPort: string }[];
    readonly template?: {
      readonly metadata: { readonly labels: Labels; readonly annotations?: Labels };
      readonly spec: Pod;
    };
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
}

export interface Pod {
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
  readonly securityContext: { readonly runAsUser: number; readonly runAsGroup: number };
}

interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly secret?: { readonly secretName: string };
  readonly emptyDir?: object;
  readonly projected?: {
    readonly sources: readonly {
      readonly secret: {
        readonly name: string;
        readonly items: readonly { readonly key: string; readonly path: string }[];
      };
    }[];
  };
}

export interface Container {
  readonly args?: readonly string[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly securityContext: { readonly readOnlyRootFilesystem: boolean };
}

export interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly scheme: string };
}

export function run(values: object, template: readonly string[] = []) {
  const file = join(folder, "values.json");
  writeFileSync(file, JSON.stringify(values));
  return spawnSync(renderer, [chart, file, "test", ...template], { encoding: "utf8" });
}

export function render(values: object): Manifest[] {
  const { status, stdout, stderr } = run(values);
  assert.equal(status, 0, stderr);
  return parseAllDocuments(stdout).flatMap((document) => {
    assert.deepEqual(document.errors, []);
    // The tests read members that the schemas of Kubernetes describe.
    const manifest = document.toJS() as Manifest | null;
    return manifest === null ? [] : [manifest];
  });
}

export function renderNotes(values: object): string {
  const { status, stdout, stderr } = run(values, ["NOTES.txt"]);
  assert.equal(status, 0, stderr);
  return stdout;
}

export function workloadOf(manifests: readonly Manifest[]): Manifest["spec"] {
  return manifests.find(({ kind }) => kind === "StatefulSet" || kind === "Deployment")?.spec;
}

export function podOf(spec: Manifest["spec"]): Pod {
  return spec?.template?.spec ?? assert.fail("no pod");
}
