/**
 * The reads `archive_v1_storage` and `archive_v1_storageDiff` of one connection. While the client does not read, the
 * gateway reads nothing from the node, so it never has to hold a large result in memory.
 */
import type { ArchiveMethod, ClientArchiveRead, LedgerArchive } from "sluice-gateway/services";
import { readArchiveRequest } from "./archive-params.ts";
import type { RpcCall } from "./call-replies.ts";
import { answerParams, readText } from "./rpc-params.ts";
import type { Quota } from "./key-limit.ts";
import { OpenSubscriptions, type Opened, type SubscriptionDeps } from "./open-subscriptions.ts";
import { tooManySubscriptions, unavailable } from "./rpc-error.ts";

const maxReads = 4;

export interface ArchiveCallsDeps extends SubscriptionDeps {
  readonly archive: LedgerArchive;
  readonly quota: Quota;
  readonly isBusy: () => boolean;
}

export class ArchiveCalls {
  readonly #deps: ArchiveCallsDeps;
  readonly #open: OpenSubscriptions<ArchiveMethod, ClientArchiveRead>;
  /** Aborted when the connection ends. */
  #leaving: AbortController | undefined;

  constructor(deps: ArchiveCallsDeps) {
    this.#deps = deps;
    this.#open = new OpenSubscriptions(deps, {
      max: maxReads,
      quotaOf: () => deps.quota,
      isAlwaysCharged: false,
      refuseFull: (call, _, full) => deps.replies.refuse(call, tooManySubscriptions(full)),
      lastMember: ({ errorEvent }, { code } = unavailable) => {
        const error = `the gateway has ended the read: ${code}`;
        return `"result":${JSON.stringify({ event: errorEvent, error })}`;
      },
    });
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
        return this.#open.open(
          call,
          method,
          async () => this.#pausing(await archive.open(method, request, signal)),
          method.openMilliCu * priced,
        );
      }
      const id = readText(params[0], "subscription");
      const stopped = archive.stopping.get(call.method);
      if (this.#open.get(id)?.method === stopped) this.#open.remove(id);
      // The specification defines the same answer for a read that is not open.
      replies.answer(call, "null");
    });
  }

  /** Called after the client has read output, or after notifications were sent. */
  resume(): void {
    if (this.#deps.isBusy()) return;
    for (const { upstream } of this.#open.values()) upstream.resume();
  }

  /** Ends all reads with their error event, because the gateway is stopping. */
  drain(): void {
    for (const open of this.#open.values()) this.#open.end(open);
  }

  close(): void {
    this.#open.close();
    this.#leaving?.abort();
  }

  #pausing(opened: Opened<ClientArchiveRead>): Opened<ClientArchiveRead> {
    if (opened.kind !== "open") return opened;
    const read = opened.subscription;
    const subscription: ClientArchiveRead = {
      start: (listener) =>
        read.start({
          onNotification: (result, isLast) => {
            listener.onNotification(result, isLast);
            if (!isLast && this.#deps.isBusy()) read.pause();
          },
          onEnd: (reason) => listener.onEnd(reason),
        }),
      pause: () => read.pause(),
      resume: () => read.resume(),
      close: () => read.close(),
    };
    return { kind: "open", subscription };
  }
}
