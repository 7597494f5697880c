import { statfs } from "node:fs/promises";
import { failingServers } from "sluice-gateway/internal/http";
import type { BackendStatus, RunningGateway } from "sluice-gateway/plugin";
import { cut } from "./event.ts";
import type { Problem } from "./problems.ts";

const maxFaults = 10;

/** Default addresses that the operator has not set are omitted. */
export function ejectedBackends({ backends }: Pick<RunningGateway, "backends">): Problem[] {
  return backends.filter(({ isDefault }) => isDefault !== true).flatMap(ejectedServers);
}

function ejectedServers(status: BackendStatus): Problem[] {
  const { kind, title, ready } = status;
  if (kind === "head") return wrongHead(status);
  const found = failingServers(status).map(({ name, state, reason }) => {
    const server = cut(name);
    const data = { kind, backend: cut(title), server };
    const about = `${server} of ${cut(title)}`;
    return backendProblem(`${title} ${name}`, data, about, cut(state), reason && cut(reason));
  });
  if (found.length > 0 || ready === true) return found;
  return [backendProblem(title, { kind, backend: cut(title) }, cut(title), cut(ready))];
}

/** `status`: what is proved of the finalized head of an upstream. Its nodes are used nevertheless. */
function wrongHead({ title, ready }: BackendStatus): Problem[] {
  if (ready === true) return [];
  const data = { head: cut(title), reason: cut(ready) };
  return [
    {
      id: `backend ${title}`,
      raised: { type: "head.differs", summary: `${data.head}: ${data.reason}`, data },
      resolved: { type: "head.agrees", summary: `${data.head}: proved again`, data },
    },
  ];
}

function backendProblem(
  id: string,
  data: object,
  name: string,
  reason: string,
  cause?: string,
): Problem {
  return {
    id: `backend ${id}`,
    raised: {
      type: "backend.ejected",
      summary: `${name} is not used: ${reason}${cause === undefined ? "" : `, ${cause}`}`,
      data: { ...data, reason, ...(cause !== undefined && { cause }) },
    },
    resolved: { type: "backend.returned", summary: `${name} is used again`, data },
  };
}

/** The members of `RunningGateway.reload` that alerts read. The object is the one in /pipelines. */
interface LastReload {
  readonly faults: readonly {
    readonly code: string;
    readonly message: string;
    readonly at?: { readonly line: number };
  }[];
}

export function failedReload({
  reload,
  generation,
}: Pick<RunningGateway, "reload" | "generation">): Problem[] {
  const { faults = [] } = reload as Partial<LastReload>;
  if (faults.length === 0) return [];
  const listed = faults
    .slice(0, maxFaults)
    .map(({ code, message, at }) => ({ code, message: cut(message), line: at?.line }));
  const [first] = listed;
  return [
    {
      id: "reload",
      raised: {
        type: "reload.failed",
        summary: `pipeline.yaml could not be loaded, and the last good one keeps serving: ${first?.message ?? ""}`,
        data: { generation, fault_count: faults.length, faults: listed },
      },
      resolved: { type: "reload.recovered", summary: "pipeline.yaml is loaded again", data: {} },
    },
  ];
}

export function stuckExport(
  { metric }: Pick<RunningGateway, "metric">,
  stuckAfterMs: number,
): Problem[] {
  const valueOf = (name: string): number => metric(name)[0]?.value ?? 0;
  const isRefused = valueOf("sluice_usage_export_stopped") === 1;
  const lagSeconds = Math.round(valueOf("sluice_usage_export_lag_seconds"));
  if (!isRefused && lagSeconds * 1000 <= stuckAfterMs) return [];
  const reason = isRefused ? "refused" : "behind";
  return [
    {
      id: "export",
      raised: {
        type: "export.stuck",
        summary: isRefused
          ? "the billing system refuses the charges, and the delivery has stopped"
          : `a charge has been waiting for its delivery to the billing system for ${lagSeconds} seconds`,
        data: { reason, lag_seconds: lagSeconds },
      },
      resolved: {
        type: "export.recovered",
        summary: "charges are delivered to the billing system again",
        data: {},
      },
    },
  ];
}

export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** Undefined if the folder cannot be read, for example because it is missing. */
export async function diskSpace(folder: string): Promise<DiskSpace | undefined> {
  try {
    const { bavail, blocks, bsize } = await statfs(folder);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  } catch {
    return undefined;
  }
}

export function lowDisk(
  space: DiskSpace | undefined,
  folder: string,
  minFreePercent: number,
): Problem[] {
  if (space === undefined || space.totalBytes <= 0) return [];
  const freePercent = (100 * space.freeBytes) / space.totalBytes;
  if (freePercent >= minFreePercent) return [];
  const shown = Math.floor(freePercent * 10) / 10;
  const data = { folder, free_bytes: space.freeBytes, total_bytes: space.totalBytes };
  return [
    {
      id: "disk",
      raised: {
        type: "disk.low",
        summary: `${shown} % of the disk of the data folder is free`,
        data: { ...data, free_percent: shown },
      },
      resolved: {
        type: "disk.recovered",
        summary: `at least ${minFreePercent} % of the disk of the data folder is free again`,
        data: { folder },
      },
    },
  ];
}
