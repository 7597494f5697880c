/**
 * Changes of accounts by the forms of the page. Each form sends an Idempotency-Key, so that a change that is sent twice
 * runs once. Each change is recorded in the audit log with its author and the id of the request.
 */
import { hash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { GatewayCode } from "sluice-gateway/plugin";
import type { ChangeAuthor, Failed, TransactionEnd } from "sluice-gateway/services";
import { sendJson, sendRefusal } from "./answer.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute, Handler } from "./route.ts";
import type { Viewer } from "./session.ts";

/** `once`: members that only the first answer has, because they must not be stored, such as the text of a key. */
export type Outcome =
  | { readonly status: 200 | 201; readonly body: object; readonly once?: object }
  | { readonly refused: GatewayCode; readonly message: string | undefined };

export type Author = ChangeAuthor & { readonly requestId: string };

/** Performs a change. It may wait for the accounts, but for nothing else, because it runs in a transaction. */
export type ChangeWork = (viewer: Viewer, request: FastifyRequest, by: Author) => Promise<Outcome>;

const keyForm = /^[!-~]{8,100}$/;

export function addChange(
  add: AddRoute,
  deps: DashboardDeps,
  path: string,
  work: ChangeWork,
  who?: "platform",
): void {
  add("POST", path, changeOnce(deps, work), who);
}

export function refused(code: GatewayCode, message?: string): Outcome {
  return { refused: code, message };
}

export function refusedAs({ failed, message }: Failed): Outcome {
  return failed === "notFound"
    ? refused("GATEWAY_NOT_FOUND")
    : refused("GATEWAY_CONFLICT", message);
}

function changeOnce(deps: DashboardDeps, work: ChangeWork): Handler {
  return async (viewer, request, reply) => {
    const key = request.headers["idempotency-key"];
    if (typeof key !== "string" || !keyForm.test(key)) {
      const message = "the header Idempotency-Key must have 8 to 100 visible ASCII characters";
      return sendRefusal(reply, "GATEWAY_INVALID_IDEMPOTENCY_KEY", { message });
    }
    const by = { actor: viewer.actor, at: deps.clock.now(), requestId: request.id };
    const text = `${request.method} ${request.url}\n${JSON.stringify(request.body ?? null)}`;
    const attempt = {
      apiKeyId: viewer.id,
      // A client of the API cannot have the same key, because a space is not allowed there.
      key: `dashboard ${key}`,
      fingerprint: hash("sha256", text),
    };
    let outcome: Outcome | undefined;
    const end = await deps.accounts.idempotency.once(attempt, async () => {
      outcome = await work(viewer, request, by);
      return endOf(outcome);
    });
    if (end.kind === "ran") return send(reply, outcome);
    if (end.kind === "replay") {
      const { status, body } = end.response;
      void reply.code(status).type("application/json").header("idempotent-replayed", "true");
      return reply.send(Buffer.from(body));
    }
    const [code, message] = notRun[end.kind];
    return sendRefusal(reply, code, { message });
  };
}

const notRun = {
  inFlight: ["GATEWAY_CONFLICT", "this form is already being sent"],
  mismatch: [
    "GATEWAY_IDEMPOTENCY_KEY_MISMATCH",
    "this form was already sent with other values; reload the page to see the result",
  ],
  unavailable: ["GATEWAY_SERVICE_UNAVAILABLE", "the store cannot be used"],
} as const;

/** A refusal changes nothing and is not stored, so the form can be corrected and sent again. */
function endOf(outcome: Outcome): TransactionEnd {
  if ("refused" in outcome) return "undo";
  return {
    status: outcome.status,
    contentType: "application/json",
    contentEncoding: undefined,
    body: Buffer.from(JSON.stringify(outcome.body)),
  };
}

function send(reply: FastifyReply, outcome: Outcome | undefined): FastifyReply {
  if (outcome === undefined) return sendRefusal(reply, "GATEWAY_INTERNAL_ERROR");
  if (!("refused" in outcome)) {
    return sendJson(reply, outcome.status, { ...outcome.body, ...outcome.once });
  }
  const { refused: code, message } = outcome;
  return sendRefusal(reply, code, message === undefined ? {} : { message });
}
