import type { Server } from "node:net";
import { ListenError, type ListenSection } from "./listen-error.ts";

export interface BoundAddress {
  readonly section: ListenSection;
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  readonly reusePort?: boolean;
}

/** `backlog`: how many connections may wait to be accepted. Rejects with a `ListenError` if the system refuses it. */
export async function bind(http: Server, address: BoundAddress, backlog: number): Promise<void> {
  const { promise, resolve, reject: fail } = Promise.withResolvers<void>();
  const { host, port, reusePort = false } = address;
  http.once("error", fail);
  http.listen({ host, port, backlog, reusePort }, resolve);
  try {
    await promise;
  } catch (error) {
    throw new ListenError(address, error);
  }
  http.off("error", fail);
}
