/** The process that makes the load, pinned to a core. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { StreamsOptions, StreamsResult } from "./chat-client.ts";
import type { LoadOptions, LoadResult } from "./client.ts";
import type { Revision } from "./mcp-calls.ts";

export type RequestLoad = Omit<LoadOptions, "bodies"> & { readonly bodies: "node" | Revision };
export type Load = RequestLoad | StreamsOptions;
export type Done = ((LoadResult | StreamsResult) & { readonly cpuMicros: number }) | Failed;

interface Failed {
  readonly failed: string;
}

export interface Driver extends AsyncDisposable {
  /** Rejects if an answer failed. */
  requests(load: RequestLoad): Promise<LoadResult & { readonly cpuMicros: number }>;
  /** Rejects if a stream did not complete. */
  streams(load: StreamsOptions): Promise<StreamsResult & { readonly cpuMicros: number }>;
}

export function startDriver(core: number): Driver {
  const file = join(import.meta.dirname, "load-process.ts");
  const child = spawn("taskset", ["-c", String(core), process.execPath, file], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const run = async <Result extends object>(load: Load): Promise<Result> => {
    const answered = once(child, "message");
    child.send(load);
    // load-process.ts sends this.
    const [done] = (await answered) as [Result | Failed];
    if ("failed" in done) throw new Error(done.failed);
    return done;
  };
  return {
    requests: (load) => run(load),
    async streams(load) {
      const done = await run<Awaited<ReturnType<Driver["streams"]>>>(load);
      if (done.completed < done.started) throw new Error(JSON.stringify(done.faults));
      return done;
    },
    async [Symbol.asyncDispose]() {
      const ended = once(child, "exit");
      child.kill();
      await ended;
    },
  };
}
