/**
 * The reads `archive_v1_storage` and `archive_v1_storageDiff` of one connection. While the client does not read, the
 * gateway reads nothing from the node, so it never has to hold a large result in memory.
 */
import type { ArchiveMethod, ClientArchiveRead, LedgerArchive } from "sluice-gateway/services";
import { tooManySubscriptions, unavailable, type RpcCall } from "./call-replies.ts";
import type { Quota } from "./key-limit.ts";
import { OpenSubscriptions, type SubscriptionDeps } from "./open-subscriptions.ts";
import { answerParams, readArchiveRequest, readText } from "./rpc-params.ts";

const maxReads = 4;

export interface ArchiveCallsDeps extends SubscriptionDeps {
  readonly archive: LedgerArchive;
  readonly quota: Quota;
  readonly isBusy: () => boolean;
}

export class ArchiveCalls extends OpenSubscriptions<ArchiveMethod, ClientArchiveRead> {
  readonly #deps: ArchiveCallsDeps;
  /** Aborted when the connection ends. */
  #leaving: AbortController | undefined;

  constructor(deps: ArchiveCallsDeps) {
    super(deps, {
      max: maxReads,
      quotaOf: () => deps.quota,
      isAlwaysCharged: false,
      onNotified: (read) => {
        if (deps.isBusy()) read.pause();
      },
      refuseFull: (call, _, full) => deps.replies.refuse(call, tooManySubscriptions(full)),
      lastMember: ({ errorEvent }, { code } = unavailable) => {
        const error = `the gateway has ended the read: ${code}`;
        return `"result":${JSON.stringify({ event: errorEvent, error })}`;
      },
    });
    this.#deps = deps;
  }

  handles(method: string): boolean {
    const { methods, stopping } = this.#deps.archive;
    return methods.has(method) || stopping.has(method);
  }

  answer(call: RpcCall): Promise<void> {
    const { archive, replies } = this.#deps;
    const method = archive.methods.get(call.method);
    return answerParams(call, replies, async (params) => {
      if (method !== undefined) {
        const request = readArchiveRequest(method.name, params);
        const priced = method.isPerItem ? request.items : 1;
        this.#leaving ??= new AbortController();
        const { signal } = this.#leaving;
        const open = () => archive.open(method, request, signal);
        return this.open(call, method, open, method.openMilliCu * priced);
      }
      const id = readText(params[0], "subscription");
      const stopped = archive.stopping.get(call.method);
      if (this.get(id)?.method === stopped) this.remove(id);
      // The specification defines the same answer for a read that is not open.
      replies.answer(call, "null");
    });
  }

  /** Called after the client has read output, or after notifications were sent. */
  resume(): void {
    if (this.#deps.isBusy()) return;
    for (const { upstream } of this.values()) upstream.resume();
  }

  override close(): void {
    super.close();
    this.#leaving?.abort();
  }
}
