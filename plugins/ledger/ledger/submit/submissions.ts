/**
 * Submits extrinsics for clients that stay connected. A submission stays at the node that it was sent to: if this node is
 * lost, the watch ends, because the extrinsic must not be sent a second time. The connections are separate from those of
 * the subscriptions, so that a node that is lost here does not interrupt those.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type {
  LedgerSubmissions,
  SubmissionAnswer,
  SubmissionMethod,
} from "sluice-gateway/services";
import { FeedConnection, type FeedAnswer, type FeedLimits } from "../feed/feed-connection.ts";
import { TargetChoice } from "../feed/target-choice.ts";
import type { NodePool, NodeTarget } from "../node-pool.ts";
import type { PoolConfig } from "../options.ts";
import { Submission } from "./submission.ts";
import { createSubmissionMethods, type SubmissionMethods } from "./submission-methods.ts";

/** Maximum number of submissions per connection. A node broadcasts at most 16 extrinsics for one connection. */
const maxPerConnection = 16;
/** A node accepts 100 connections in total by default. */
const maxConnections = 16;
/** A connection without submissions is kept for this time. */
const unusedMs = 5_000;
/** Notifications of an extrinsic are short. */
const messageBytes = 1_048_576;

export interface SubmissionsParts {
  readonly upstream: Pick<PoolConfig, "connectMs" | "headersMs" | "idleMs" | "methods">;
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
}

/** A connection to a node, with the submissions that it carries. */
interface NodeLink {
  readonly target: NodeTarget;
  readonly connection: FeedConnection;
  readonly open: Set<Submission>;
  /** Number of submissions, including those that the node has not answered. */
  size: number;
}

export class Submissions implements LedgerSubmissions {
  readonly methods: SubmissionMethods["methods"];
  readonly ending: SubmissionMethods["ending"];
  readonly #parts: SubmissionsParts;
  readonly #limits: FeedLimits;
  readonly #nodes: TargetChoice;
  readonly #links = new Set<NodeLink>();
  #isClosed = false;

  constructor(parts: SubmissionsParts) {
    const { connectMs, headersMs, idleMs, methods } = parts.upstream;
    ({ methods: this.methods, ending: this.ending } = createSubmissionMethods(methods));
    this.#parts = parts;
    this.#limits = { connectMs, answerMs: headersMs + idleMs, messageBytes };
    this.#nodes = new TargetChoice(parts.pool, parts.clock);
  }

  async submit(method: SubmissionMethod, extrinsic: string): Promise<SubmissionAnswer> {
    // Nothing has been sent on a connection that could not be opened, so another node may be tried.
    for (let attempt = 0; attempt < 2; attempt++) {
      const link = this.#linkWithRoom();
      if (link === "full") return { kind: "full" };
      if (link === undefined) break;
      link.size++;
      if (await link.connection.opened) return await this.#submitTo(link, method, extrinsic);
      link.size--;
    }
    return { kind: "failed" };
  }

  close(): void {
    this.#isClosed = true;
    for (const link of this.#links) this.#disconnect(link);
  }

  async #submitTo(
    link: NodeLink,
    method: SubmissionMethod,
    extrinsic: string,
  ): Promise<SubmissionAnswer> {
    const { connection } = link;
    const params = JSON.stringify([extrinsic]);
    let id = "";
    const submission = new Submission(method.kind, () => {
      link.open.delete(submission);
      // A broadcast is not a subscription of the connection.
      if (method.kind === "broadcast") connection.send(method.endMethod, `[${id}]`, () => {});
      else connection.unsubscribe(method.endMethod, id);
      this.#release(link);
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
      return { kind: "open", submission };
    }
    if (answer?.kind === "result" && broadcastForm.test(answer.text)) {
      id = answer.text;
      if (this.#links.has(link)) link.open.add(submission);
      return { kind: "open", submission };
    }
    this.#release(link);
    return refusalOf(answer);
  }

  #release(link: NodeLink): void {
    link.size--;
    if (link.size > 0 || !this.#links.has(link)) return;
    this.#parts.clock.after(unusedMs, () => {
      if (link.size === 0) this.#disconnect(link);
    });
  }

  /** Returns a connection to a usable node, or opens one. Undefined if there is no node. */
  #linkWithRoom(): NodeLink | "full" | undefined {
    if (this.#isClosed) return undefined;
    for (const link of this.#links) {
      if (link.size < maxPerConnection && !this.#nodes.isUnusable(link.target)) return link;
    }
    if (this.#links.size >= maxConnections) return "full";
    const target = this.#nodes.choose();
    if (target === undefined) return undefined;
    const { clock } = this.#parts;
    const connection = new FeedConnection(target.url, clock, this.#limits, (reason) =>
      this.#lost(link, reason),
    );
    const link: NodeLink = { target, connection, open: new Set(), size: 0 };
    this.#links.add(link);
    return link;
  }

  #lost(link: NodeLink, reason: string): void {
    const { target, open } = link;
    const fields = { node: target.label, reason, submissions: open.size };
    this.#parts.log.warn(fields, "watched extrinsics end, because their node is lost");
    this.#nodes.avoid(target);
    this.#disconnect(link);
  }

  #disconnect(link: NodeLink): void {
    if (!this.#links.delete(link)) return;
    link.connection.close();
    for (const submission of link.open) submission.lose();
  }
}

/** The id of a broadcast as JSON text. */
const broadcastForm = /^"[^"\\]{1,128}"$/;

/** `answer`: anything but the id of a submission. The node answers `null` if it broadcasts too many extrinsics. */
function refusalOf(answer: FeedAnswer): SubmissionAnswer {
  if (answer?.kind === "error") return { kind: "error", error: answer.text };
  return { kind: answer?.text === "null" ? "full" : "failed" };
}
