import { createHost } from "../../../src/pipeline/load/plugin-host.ts";
import { pluginCounts } from "../../../src/pipeline/observe/plugin-counts.ts";
import type { Log, UpstreamClientOptions } from "../../../src/plugin.ts";
import { testResources } from "../../pipeline/harness.ts";

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const config = { environment: "dev", file: "/pipeline.yaml" } as const;

export function hostWith(hosts: readonly string[]) {
  const plugin = { name: "acme", permissions: { hosts } };
  const resources = testResources(log);
  const counts = pluginCounts({ name: "acme", kind: "step" }, resources);
  return createHost(
    plugin,
    { mode: "enforce", strict: true },
    config,
    resources,
    counts,
    () => undefined,
  );
}

/** Returns a client for `http://127.0.0.1:PORT` and the path. Dispose of the result to stop its plugin. */
export function clientOf(port: number, options: UpstreamClientOptions = {}, path = "") {
  const { host, close } = hostWith([`127.0.0.1:${port}`]);
  const client = host.upstream(`http://127.0.0.1:${port}${path}`, options);
  return { client, close, [Symbol.asyncDispose]: close };
}
