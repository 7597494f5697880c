/** `POST /v1/confidential/tickets`: what a page shows instead of an API key. */
import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import { refuse, type Exchange, type Reply, type Tickets } from "sluice-gateway/plugin";

interface Wish {
  readonly model?: string;
  readonly origin?: string;
}

/** What a body is held against, and what the OpenAPI document shows. */
export const wishSchema = {
  type: "object",
  properties: {
    model: {
      description: "The only model that the ticket is valid for.",
      type: "string",
      minLength: 1,
      maxLength: 256,
    },
    origin: {
      description:
        "Origin of the page that may use the ticket, such as https://app.example. Default: the Origin of the request.",
      type: "string",
      pattern: "^https?://",
      format: "origin",
    },
  },
  additionalProperties: false,
};

const isWish = new Ajv2020({ formats: { origin: isOrigin } }).compile<Wish>(wishSchema);

export function issueTicket(x: Exchange, tickets: Tickets): Reply {
  const principal = x.peek("principal");
  if (principal?.kind !== "key") return refuse("GATEWAY_UNAUTHORIZED");
  const json = x.json();
  if (!json.ok) return refuse("GATEWAY_INVALID_PARAMS", { message: "the body is not valid JSON" });
  if (!isWish(json.value)) return violated(isWish.errors?.[0]);
  const { model, origin = x.request.headers.origin } = json.value;
  const { ticket, expiresAt } = tickets.issue({ keyId: principal.key.id, model, origin });
  return {
    status: 201,
    headers: ["content-type", "application/json", "cache-control", "no-store"],
    body: JSON.stringify({ ticket, expires_at: new Date(expiresAt).toISOString() }),
  };
}

/** RFC 6454 section 6.2: no path, no default port, the host as a browser writes it. */
function isOrigin(text: string): boolean {
  return URL.parse(text)?.origin === text;
}

function violated(error: ErrorObject | undefined): Reply {
  const { instancePath = "", message: reason = "is not allowed" } = error ?? {};
  return refuse("GATEWAY_INVALID_PARAMS", {
    message: "the body does not match its schema",
    details: { violations: [{ path: `/body${instancePath}`, reason }] },
  });
}
