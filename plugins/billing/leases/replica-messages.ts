/** The messages of a replica to the ledger, and which of them are in flight: at most one of each kind. */
import type {
  FeedReply,
  LeaseReply,
  LeaseRequest,
  PostReply,
  PostRequest,
  Registered,
  ReplicaMode,
  ReplicaStatus,
} from "./ledger.ts";

/** `no`: number of the message, which the reply repeats. */
export type Message = { readonly no: number } & (
  | {
      readonly kind: "register";
      readonly name: string;
      readonly mode: ReplicaMode;
    }
  | { readonly kind: "feed" | "fence" | "leave"; readonly replica: number }
  | { readonly kind: "lease"; readonly request: LeaseRequest }
  | { readonly kind: "post"; readonly request: PostRequest }
);

export type Reply = { readonly no: number } & (
  | { readonly kind: "register"; readonly reply: Registered }
  | { readonly kind: "feed"; readonly reply: FeedReply }
  | { readonly kind: "lease"; readonly reply: LeaseReply }
  | { readonly kind: "post"; readonly reply: PostReply }
  | { readonly kind: "leave"; readonly reply: ReplicaStatus }
  | { readonly kind: "fence"; readonly reply: readonly number[] }
);

type Kind = Message["kind"];

/** The newest charge and the newest lease request that the ledger had confirmed when a message was sent. */
export interface Confirmed {
  readonly posted: number;
  readonly leaseNo: number;
}

interface Sent extends Confirmed {
  readonly no: number;
  readonly at: number;
}

/** A message without a reply counts as lost after this time. */
const lostMs = 2_000;

export class MessagesInFlight {
  #no = 0;
  readonly #sent = new Map<Kind, Sent>();
  readonly #notBefore = new Map<Kind, number>();

  continueAfter(no: number): void {
    this.#no = Math.max(this.#no, no);
  }

  wait(kind: Kind, until: number): void {
    this.#notBefore.set(kind, until);
  }

  maySend(kind: Kind, now: number): boolean {
    return !this.#sent.has(kind) && now >= (this.#notBefore.get(kind) ?? 0);
  }

  has(kind: Kind): boolean {
    return this.#sent.has(kind);
  }

  add(kind: Kind, now: number, { posted, leaseNo }: Confirmed): number {
    this.#no++;
    this.#sent.set(kind, { no: this.#no, at: now, posted, leaseNo });
    return this.#no;
  }

  /** Returns the state that was confirmed when the message was sent. Undefined if it is not in flight. */
  remove({ kind, no }: Pick<Message, "kind" | "no">): Confirmed | undefined {
    const sent = this.#sent.get(kind);
    if (sent?.no !== no) return undefined;
    this.#sent.delete(kind);
    return sent;
  }

  removeLost(now: number): readonly Kind[] {
    const lost: Kind[] = [];
    for (const [kind, { at }] of this.#sent) {
      if (now - at < lostMs) continue;
      this.#sent.delete(kind);
      lost.push(kind);
    }
    return lost;
  }

  clear(): void {
    this.#sent.clear();
  }
}
