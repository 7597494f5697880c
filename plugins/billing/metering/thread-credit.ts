/**
 * Credit of a process with several threads (`server.threads`). The authority and the journal are in the main thread. A
 * thread that serves holds leased credit, as a gateway does that shares PostgreSQL with others, and its messages are
 * calls to the main thread.
 */
import type { Log, Threads } from "sluice-gateway/plugin";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import type { CreditLedger, PostReply, PostRequest } from "../leases/ledger.ts";
import type { MemoryLedger } from "../leases/memory-ledger.ts";
import type { LocalLink } from "./local-link.ts";

const name = "credit";
/** Notifies the threads when one of them waits for credit of others, so that they do not wait for their next feed. */
export const epochsTopic = "epochs";

type Method = keyof CreditLedger;

interface Asked {
  readonly method: Method;
  readonly values: readonly unknown[];
}

export function ledgerOfMain(threads: Threads): CreditLedger {
  // Only `serveLedger` answers these calls, with the result of the same method.
  const ask =
    <M extends Method>(method: M) =>
    (...values: Parameters<CreditLedger[M]>) =>
      threads.call(name, { method, values } satisfies Asked) as ReturnType<CreditLedger[M]>;
  return {
    register: ask("register"),
    feed: ask("feed"),
    lease: ask("lease"),
    post: ask("post"),
    leave: ask("leave"),
    // The main thread knows which threads have ended.
    fence: () => [],
  };
}

interface Writing {
  readonly last: number;
  readonly done: Promise<PostReply>;
}

/** Answers the calls of `ledgerOfMain`. Ends the leases of threads that have ended, after their last charges. */
export function serveLedger(
  threads: Threads,
  ledger: MemoryLedger,
  link: LocalLink,
  log: Log,
): Disposable {
  const registered = new Map<number, number[]>();
  const writing = new Map<number, Writing>();

  const write = async (request: PostRequest): Promise<PostReply> => {
    try {
      return await link.post(request);
    } catch {
      const { replica } = request;
      return { ...ledger.status(replica), isLost: true };
    }
  };
  const post = (request: PostRequest): Promise<PostReply> | PostReply => {
    const { replica, first, last } = request;
    const { state, posted } = ledger.status(replica);
    const before = writing.get(replica);
    // The thread has sent the batch again, because the disk is slow.
    if (before !== undefined && first <= before.last && posted < before.last) return before.done;
    if (state !== "live" || posted !== first - 1) return ledger.status(replica);
    const done = write(request).finally(() => {
      if (writing.get(replica)?.done === done) writing.delete(replica);
    });
    writing.set(replica, { last, done });
    return done;
  };
  const answers: Omit<CreditLedger, "fence"> = {
    register: (thread, mode) => ledger.register(thread, mode),
    feed(replica) {
      if (!link.isAvailable) throw new Error("the journal cannot be written");
      return ledger.feed(replica);
    },
    lease(request) {
      const reply = ledger.lease(request);
      const isWaiting = reply.granted?.some(({ answered, epoch }) => answered < epoch) === true;
      if (isWaiting) threads.send(epochsTopic, undefined);
      return reply;
    },
    post,
    leave: (replica) => ledger.leave(replica),
  };
  const failed = (err: unknown): void =>
    log.error({ err }, "the leases of a thread that has ended could not be ended");
  const end = async (index: number): Promise<void> => {
    const replicas = registered.get(index) ?? [];
    registered.delete(index);
    for (const replica of replicas) {
      await writing.get(replica)?.done;
      ledger.leave(replica);
    }
  };

  const stack = new DisposableStack();
  stack.use(
    threads.serve(name, async (value, from) => {
      // Only `ledgerOfMain` calls this name.
      const { method, values } = value as Asked & { readonly method: keyof typeof answers };
      const answer = answers[method] as (...given: readonly unknown[]) => unknown;
      const result = await answer(...values);
      if (method === "register") {
        const { replica } = result as Awaited<ReturnType<typeof answers.register>>;
        registered.set(from, [...(registered.get(from) ?? []), replica]);
      }
      return result;
    }),
  );
  stack.use(threads.onEnded((index) => void runGuarded(end, failed, index)));
  return stack;
}
