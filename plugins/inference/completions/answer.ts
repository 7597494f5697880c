/**
 * The call path of all APIs for models: read the request, reserve its maximum cost, send it to a worker, render the
 * answer, and charge the tokens that the worker counts.
 */
import {
  refuse,
  type Awaitable,
  type Clock,
  type Exchange,
  type Host,
  type Reply,
  type SurfaceHooks,
} from "sluice-gateway/plugin";
import type { Networks, Offer, AnswerReader } from "sluice-gateway/services";
import { andThen, isObject } from "sluice-gateway/internal/toolkit";
import { isUnknownNetwork } from "../network-in-path.ts";
import { sessionKey } from "../session-key.ts";
import type { Completion, CompletionApi, AcceptedCompletion } from "./api.ts";
import * as check from "./check.ts";
import type { Json } from "./check.ts";
import { createCompletion, noteCompletion, settle } from "./completion.ts";
import { errorReply } from "./error-reply.ts";
import {
  completionError,
  notFoundMessage,
  notSpokenMessage,
  type CompletionError,
} from "./errors.ts";
import { withExactIntegers } from "./exact-integers.ts";
import { ignoredCounter, withIgnoredFields } from "./ignored-fields.ts";
import { requestFor } from "./native-request.ts";
import { StreamedCompletion } from "./streamed-completion.ts";
import { CompletionReader } from "./completion-reader.ts";

/** decisions.md section 4 */
export const maxRequestBytes = 10 * 1024 * 1024;

interface CompletionDeps {
  readonly networks: Networks;
  readonly clock: Clock;
  readonly countIgnored: (ignored: readonly string[]) => void;
}

export function completionSurface(
  api: CompletionApi,
  host: Host,
  counted: readonly string[],
): Required<Pick<SurfaceHooks, "body" | "answer">> {
  const countIgnored = ignoredCounter(host.metrics, counted);
  const deps = { networks: host.use("networks"), clock: host.clock, countIgnored };
  return {
    body: { bytes: maxRequestBytes, types: ["application/json"] },
    answer: (x) => answer(api, x, deps),
  };
}

/** The reply is undefined after a stream, or if the client has disconnected. */
function answer(
  api: CompletionApi,
  x: Exchange,
  deps: CompletionDeps,
): Awaitable<Reply | undefined> {
  const { networks, clock, countIgnored } = deps;
  const asked = readBody(api, x, networks, (body, offer) => api.read(body, offer?.prompt, x));
  if ("status" in asked) return asked;
  const { body: members, offer, read } = asked;
  const session = offer?.usesSessions === true ? sessionKey(x, read.session) : undefined;
  const { body, ...rest } = requestFor(offer, api.native, members, read.request);
  // The body that is sent to the worker counts as the body of the exchange until the worker answers.
  x.replaceBody(body);
  countIgnored(rest.ignored);
  const { renderer } = read;
  const accepted = { x, api, renderer, request: { ...rest, session }, clock };
  return andThen(
    reserve(accepted, networks, offer, body),
    (reply) => reply && withIgnoredFields(reply, rest.ignored),
  );
}

interface ReadBody<T> {
  readonly body: Json;
  /** Undefined if no network lists the model. */
  readonly offer: Offer | undefined;
  readonly read: T;
}

/** `read` may throw `InvalidRequest`. Returns a reply for an invalid body, or for a path with an unknown network. */
export function readBody<T>(
  api: Pick<CompletionApi, "renderError">,
  x: Exchange,
  networks: Networks,
  read: (body: Json, offer: Offer | undefined) => T,
): Reply | ReadBody<T> {
  const { network } = x.request.params;
  if (isUnknownNetwork(network, networks)) return refuse("GATEWAY_NOT_FOUND");
  const json = x.json();
  const invalid = (details: Parameters<typeof completionError>[1]): Reply =>
    errorReply(api, x, completionError("INVALID_REQUEST", details));
  if (!json.ok) return invalid({ message: "the body is not JSON" });
  if (!isObject(json.value)) {
    return invalid({ message: "the body must be a JSON object" });
  }
  const body = withExactIntegers(json.value, x.body);
  try {
    const offer = networks.find(check.name(body["model"], "model"), network);
    return { body, offer, read: read(body, offer) };
  } catch (error) {
    if (!(error instanceof check.InvalidRequest)) throw error;
    const { message, param, code: apiCode } = error;
    return invalid({ message, param, apiCode });
  }
}

export function unlistedError(
  networks: Networks,
  model: string,
  network: string | undefined,
): CompletionError {
  return networks.unread(network)
    ? completionError("MODEL_NOT_AVAILABLE")
    : completionError("MODEL_NOT_FOUND", { message: notFoundMessage(model, network) });
}

function reserve(
  accepted: AcceptedCompletion,
  networks: Networks,
  offer: Offer | undefined,
  body: Buffer,
): Awaitable<Reply | undefined> {
  const { x, api, request } = accepted;
  const charge = x.get("charge");
  const report = { kind: "model", name: request.model, isListed: offer !== undefined } as const;
  const refused = (error: CompletionError): Reply => {
    x.called({ ...report, code: error.code });
    return errorReply(api, x, error);
  };
  if (offer === undefined) {
    return refused(unlistedError(networks, request.model, x.request.params.network));
  }
  x.note("upstream", offer.network);
  if (request.api !== undefined && !offer.speaks.includes(request.api)) {
    const message = notSpokenMessage(request.api, offer.network);
    return refused(completionError("MODEL_NOT_FOUND", { message }));
  }
  if (offer.activeWorkers === 0) return refused(completionError("MODEL_NOT_AVAILABLE"));
  const maxTokens = request.maxTokens ?? offer.maxOutputTokens;
  const maxMilliCu = offer.maxMilliCu(request.maxPromptTokens, maxTokens);
  const reserving = charge.reserve(maxMilliCu, { streamed: request.stream });
  return andThen(reserving, (refusal) => {
    if (refusal !== undefined) {
      x.called({ ...report, code: refusal.code });
      return refusal;
    }
    const completion = createCompletion(accepted, charge);
    noteCompletion(completion, undefined);
    return complete(completion, body, offer).then((reply) => {
      x.called({ ...report, code: reply?.code ?? completion.brokenBy });
      return reply;
    });
  });
}

function complete(completion: Completion, body: Buffer, offer: Offer): Promise<Reply | undefined> {
  const Reader = completion.request.stream ? StreamedCompletion : WholeCompletion;
  return new Promise((resolve, reject) => {
    new Reader(completion, resolve, reject).begin(body, offer);
  });
}

class WholeCompletion extends CompletionReader {
  // Not called, because the answer is in one piece.
  onChoice(): void {}
  onRead(): void {}
  protected override broke(): void {}

  protected override ended(...ended: Parameters<AnswerReader["onEnd"]>): void {
    this.completion.x.onAbort = undefined;
    this.completion.x.dropBody();
    this.resolve(this.#reply(...ended));
  }

  #reply(...[result, message, native]: Parameters<AnswerReader["onEnd"]>): Reply {
    const { completion } = this;
    const { renderer } = completion;
    const charged = { result, usedMilliCu: settle(completion, result) };
    const headers = ["content-type", "application/json", ...this.headers];
    if (native === undefined || renderer.native === undefined) {
      return { status: 200, headers, body: renderer.whole(completion, message, charged) };
    }
    return { status: 200, headers, pieces: renderer.native(completion, native, charged) };
  }

  aborted(): void {
    this.resolve(this.leave());
  }
}
