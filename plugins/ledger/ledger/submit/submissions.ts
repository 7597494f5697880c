/**
 * Submits extrinsics for clients that stay connected. A submission stays at the node that it was sent to: if this node is
 * lost, the watch ends, because the extrinsic must not be sent a second time.
 */
import type {
  LedgerSubmissions,
  OpenedOwnSubscription,
  SubmissionMethod,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { FeedAnswer } from "../feed/feed-connection.ts";
import { NodeLinks, type NodeLink } from "../feed/node-links.ts";
import { OwnSubscription } from "../feed/own-subscription.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import { createSubmissionMethods } from "../websocket-methods.ts";

/** Maximum number of submissions per connection. A node broadcasts at most 16 extrinsics for one connection. */
const maxPerLink = 16;
const maxLinks = 16;
const messageBytes = 1_048_576;
/** Maximum number of notifications that wait for `start`. A node sends a few per extrinsic. */
const maxWaiting = 64;

/** The states of an extrinsic after which a node sends nothing more. */
const lastStates: Readonly<Record<SubmissionMethod["kind"], ReadonlySet<string>>> = {
  legacy: new Set(["finalized", "finalityTimeout", "usurped", "dropped", "invalid"]),
  watch: new Set(["finalized", "error", "invalid", "dropped"]),
  broadcast: new Set(),
};

export class Submissions implements LedgerSubmissions {
  readonly methods: LedgerSubmissions["methods"];
  readonly ending: LedgerSubmissions["ending"];
  readonly #links: NodeLinks;

  constructor({ upstream, pool, clock, log }: LedgerDeps) {
    const { connectMs, headersMs, idleMs, methods } = upstream;
    ({ methods: this.methods, ending: this.ending } = createSubmissionMethods(methods));
    this.#links = new NodeLinks({
      pool,
      clock,
      log,
      limits: { connectMs, answerMs: headersMs + idleMs, messageBytes },
      maxPerLink,
      maxLinks,
      lostMessage: "watched extrinsics end, because their node is lost",
    });
  }

  async submit(method: SubmissionMethod, extrinsic: string): Promise<OpenedOwnSubscription> {
    // Nothing has been sent on a connection that could not be opened, so another node may be tried.
    for (let attempt = 0; attempt < 2; attempt++) {
      const link = this.#links.take();
      if (link === "full") return { kind: "full" };
      if (link === undefined) break;
      if (await link.connection.opened) return await this.#submitTo(link, method, extrinsic);
      this.#links.release(link);
    }
    return { kind: "failed" };
  }

  close(): void {
    this.#links.close();
  }

  async #submitTo(
    link: NodeLink,
    method: SubmissionMethod,
    extrinsic: string,
  ): Promise<OpenedOwnSubscription> {
    const { connection } = link;
    const params = JSON.stringify([extrinsic]);
    let id = "";
    const isLast = (result: string): boolean => lastStates[method.kind].has(stateOf(result));
    const submission = new OwnSubscription({ isLast, maxWaiting }, () => {
      link.open.delete(submission);
      // A broadcast is not a subscription of the connection.
      if (method.kind === "broadcast") connection.send(method.endMethod, `[${id}]`, () => {});
      else connection.unsubscribe(method.endMethod, id);
      this.#links.release(link);
    });
    const answer =
      method.kind === "broadcast"
        ? await connection.request(method.name, params)
        : await connection.subscribe(method.name, params, (given) => {
            id = given;
            link.open.add(submission);
            return (result) => submission.receive(result);
          });
    if (answer?.kind === "result" && method.kind !== "broadcast") {
      return { kind: "open", subscription: submission };
    }
    if (answer?.kind === "result" && broadcastForm.test(answer.text)) {
      id = answer.text;
      if (this.#links.has(link)) link.open.add(submission);
      return { kind: "open", subscription: submission };
    }
    this.#links.release(link);
    return refusalOf(answer);
  }
}

const broadcastForm = /^"[^"\\]{1,128}"$/;

/** `answer`: anything but the id of a submission. The node answers `null` if it broadcasts too many extrinsics. */
function refusalOf(answer: FeedAnswer): OpenedOwnSubscription {
  if (answer?.kind === "error") return { kind: "error", error: answer.text };
  return { kind: answer?.text === "null" ? "full" : "failed" };
}

/** Returns the state that a notification reports: `{"event":"STATE"}`, `"STATE"` or `{"STATE":…}`. */
function stateOf(result: string): string {
  const value = parseOrUndefined(result);
  if (typeof value === "string") return value;
  if (!isObject(value)) return "";
  const { event } = value;
  return typeof event === "string" ? event : (Object.keys(value)[0] ?? "");
}
