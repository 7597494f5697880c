/** One call on its way to one node, and what carries it there. */
import { splitResponse } from "../../../../src/http/json/response.ts";
import type { NodeRequest } from "../node.ts";
import { failures, type Failure } from "./failure.ts";

/**
 * What an HTTP connection carries: a single call, or a batch of them. Exactly one of `respond` and `fail` is called,
 * once, and never before the client's `send` has returned.
 */
export interface Job {
  /** May be sent a second time when the connection turns out to be dead. */
  readonly retry: boolean;
  /** The client's ticks; see `Ticker`. Only for the client that holds it. */
  deadline: number;
  /** The request body, JSON text. */
  text(): string;
  /** A whole response whose status is neither 429 nor 5xx. The bytes are borrowed. */
  respond(status: number, bytes: Buffer, start: number, end: number): void;
  fail(failure: Failure): void;
}

/** A connection, or several, to one node. */
export interface NodeClient {
  /** Requests sent or waiting, and not yet ended. */
  readonly inFlight: number;
  /** System error code of the connection that failed last (`ECONNREFUSED`), for the log. */
  readonly lastError: string | undefined;
  /** Ends the call by `answered` or `fail`, never before this has returned. */
  send(call: Call): void;
  /** Ends every connection; calls still out fail. Resolves when the last socket has closed. */
  close(): Promise<void>;
}

/** What a node is asked; see `NodeRequest`. */
export type Question = Pick<NodeRequest, "method" | "params" | "retry" | "cheap">;

/** What `splitResponse` says of an id that is absent, null or no number of ours. */
export const noId = -1;

/** A request at one node; the same object when it moves on to the next. */
export abstract class Call implements Job {
  readonly question: Question;
  /** Given by the client that sends it; the node must answer with it. */
  id = 0;
  deadline = 0;

  constructor(question: Question) {
    this.question = question;
  }

  /** The node's own answer; see `NodeRequest.answered`. */
  abstract answered(kind: "result" | "error", bytes: Buffer, start: number, end: number): void;
  abstract fail(failure: Failure): void;

  get retry(): boolean {
    return this.question.retry;
  }

  text(): string {
    const { method, params } = this.question;
    const list = params === "" ? "[]" : params;
    return `{"jsonrpc":"2.0","id":${this.id},"method":"${method}","params":${list}}`;
  }

  respond(status: number, bytes: Buffer, start: number, end: number): void {
    const split = splitResponse(bytes, start, end);
    if (split === undefined) return this.fail(failures.garbage);
    // JSON-RPC 2.0 section 5: the id of an error is null where the server could not read the request's.
    const ours = split.id === this.id || (split.kind === "error" && split.id === noId);
    const success = status >= 200 && status < 300;
    if (ours && (success || (split.kind === "error" && status >= 400))) {
      this.answered(split.kind, bytes, split.start, split.end);
    } else {
      this.fail(failures.garbage);
    }
  }
}
