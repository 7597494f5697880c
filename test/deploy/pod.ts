/** Runs the containers of a rendered pod as a kubelet would, under bubblewrap and with the file tree of the image. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { podOf, workloadOf, type Container, type Manifest, type Pod } from "./chart/render.ts";
import { imageSettings, inImage, type ImageOptions, type ImageTree } from "./image-tree.ts";

export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

export interface Ended {
  readonly code: number | null;
  readonly out: string;
}

export class PodOnHost {
  readonly spec: Pod;
  readonly #tree: ImageTree;
  readonly #name: string;
  /** The folder of the host of each volume, or null for an `emptyDir`. */
  readonly #volumes = new Map<string, string | null>();

  /** `spec`: of the workload or the Job. `claim`: the folder of the host that is the persistent volume. */
  constructor(
    parts: { readonly tree: ImageTree; readonly name: string; readonly claim?: string },
    spec: Pod,
    manifests: readonly Manifest[],
    secrets: Secrets,
  ) {
    this.spec = spec;
    this.#tree = parts.tree;
    this.#name = parts.name;
    const { runAsUser, runAsGroup } = spec.securityContext;
    // bubblewrap runs the programs of the image as this user (image-tree.ts).
    assert.deepEqual([runAsUser, runAsGroup], [65532, 65532]);
    if (parts.claim !== undefined) this.#volumes.set("data", parts.claim);
    for (const { name, configMap, secret, projected } of spec.volumes) {
      const files: Record<string, string> = {};
      if (configMap !== undefined) {
        const map = manifests.find(
          ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === configMap.name,
        );
        Object.assign(files, map?.data ?? assert.fail(configMap.name));
      }
      if (secret !== undefined) Object.assign(files, secrets[secret.secretName]);
      for (const { secret: source } of projected?.sources ?? []) {
        for (const { key, path } of source.items) {
          files[path] = secrets[source.name]?.[key] ?? assert.fail(`${source.name} ${key}`);
        }
      }
      const isEmpty = configMap === undefined && secret === undefined && projected === undefined;
      this.#volumes.set(name, isEmpty ? null : this.#write(files));
    }
  }

  #write(files: Readonly<Record<string, string>>): string {
    const folder = mkdtempSync(join(this.#tree.folder, "volume-"));
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    // The group of `fsGroup` may read them.
    chmodSync(folder, 0o750);
    return folder;
  }

  /** Starts a program in a container. Without a program, the container's own. */
  start(container: Container, program?: readonly string[]): ChildProcess {
    assert.ok(container.securityContext.readOnlyRootFilesystem);
    const folders: Record<string, string> = { "/app": this.#tree.app };
    let data: string | null = null;
    for (const { name, mountPath } of container.volumeMounts) {
      const folder = this.#volumes.get(name);
      assert.ok(folder !== undefined, name);
      if (mountPath === "/data") data = folder;
      else if (folder !== null) folders[mountPath] = folder;
      else assert.equal(mountPath, "/tmp");
    }
    // The other variables of the chart come from the pod's own fields.
    const env = container.env.map(({ name, value }) => [name, value ?? this.#name]);
    const more = Object.fromEntries(env) as Record<string, string>;
    const { entry, command } = imageSettings();
    const parts: ImageOptions = { folders, more, data };
    const all = program ?? [...entry, ...(container.args ?? command)];
    // The program is process 1, as in a container. bubblewrap writes its id outside to file descriptor 3.
    const options = ["--as-pid-1", "--info-fd", "3"];
    const stdio = ["ignore", "pipe", "pipe", "pipe"] as const;
    return spawn("bwrap", [...options, ...inImage(parts, all)], { stdio: [...stdio] });
  }

  /** Runs a program until it ends, as an init container, a Job and `kubectl exec` do. */
  async run(container: Container, program?: readonly string[]): Promise<Ended> {
    const child = this.start(container, program);
    let out = "";
    child.stdout?.on("data", (bytes: Buffer) => (out += bytes.toString("latin1")));
    child.stderr?.on("data", (bytes: Buffer) => (out += bytes.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    return { code, out };
  }

  async startGateway(): Promise<RunningPod> {
    const [container = assert.fail()] = this.spec.containers;
    for (const each of this.spec.initContainers ?? []) {
      const { code, out } = await this.run(each);
      assert.equal(code, 0, out);
    }
    const child = this.start(container);
    const lines: string[] = [];
    const pid = processId(child);
    const { promise, resolve, reject } = Promise.withResolvers<[string, string]>();
    const closed = once(child, "close").then(([code]: unknown[]) => {
      reject(new Error(`the gateway ended: ${lines.join("\n")}`));
      return code;
    });
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        lines.push(line);
        const found = /"url":"http:\/\/0\.0\.0\.0(:\d+)","adminUrl":"http:\/\/0\.0\.0\.0(:\d+)"/;
        const [, port, adminPort] = found.exec(line) ?? [];
        // The addresses that the listeners have are those of the Service and of `kubectl port-forward`.
        if (port && adminPort) resolve([`http://127.0.0.1${port}`, `http://127.0.0.1${adminPort}`]);
      });
    }
    const pod: RunningPod = {
      url: "",
      adminUrl: "",
      exec: (program) => this.run(container, program),
      async stop() {
        process.kill(await pid, "SIGTERM");
        return closed;
      },
      [Symbol.asyncDispose]: async () => {
        child.kill("SIGKILL");
        await closed;
      },
    };
    try {
      const [url, adminUrl] = await promise;
      for (const probe of [
        container.startupProbe,
        container.livenessProbe,
        container.readinessProbe,
      ]) {
        const { path } = probe?.httpGet ?? assert.fail("no probe");
        while ((await fetch(url + path)).status !== 200) await delay(50);
      }
      return Object.assign(pod, { url, adminUrl });
    } catch (error) {
      await pod[Symbol.asyncDispose]();
      throw error;
    }
  }
}

/** Returns the id of the program that bubblewrap runs. */
async function processId(child: ChildProcess): Promise<number> {
  const stream = child.stdio[3] as Readable;
  const chunks = (await stream.toArray()) as Buffer[];
  // bubblewrap(1): --info-fd
  const info = JSON.parse(Buffer.concat(chunks).toString()) as { readonly "child-pid": number };
  return info["child-pid"];
}

export interface RunningPod extends AsyncDisposable {
  /** URLs at which the host reaches the listeners. */
  readonly url: string;
  readonly adminUrl: string;
  exec(program: readonly string[]): Promise<Ended>;
  /** Sends SIGTERM, and returns the exit code. */
  stop(): Promise<unknown>;
}

export function openPod(
  tree: ImageTree,
  manifests: readonly Manifest[],
  secrets: Secrets,
  {
    kind = "workload",
    name = "pod-0",
  }: { readonly kind?: "workload" | "Job"; readonly name?: string } = {},
): PodOnHost {
  const spec =
    kind === "Job" ? manifests.find((each) => each.kind === "Job")?.spec : workloadOf(manifests);
  const claim =
    spec?.volumeClaimTemplates?.length === 1 ? join(tree.folder, `claim-${name}`) : undefined;
  if (claim !== undefined) mkdirSync(claim);
  return new PodOnHost(
    { tree, name, ...(claim !== undefined && { claim }) },
    podOf(spec),
    manifests,
    secrets,
  );
}
