/** `POST /v1/confidential/tickets`: creates a ticket, which a web page sends instead of an API key. */
import { schemaCompiler, type SchemaError } from "sluice-gateway/internal/json-schema";
import { refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import { keyIdPrefix, type Tickets } from "sluice-gateway/services";

interface TicketRequest {
  readonly model?: string;
  readonly origin?: string;
}

export const ticketRequestSchema = {
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

/** A ticket is redeemed by the id of an API key, so it would not work for other callers. */
const needsKey = refuse("GATEWAY_PERMISSION_DENIED", { message: "tickets need an API key" });

const compile = schemaCompiler("ticket", { formatTests: { origin: isOrigin } });
const isTicketRequest = compile<TicketRequest>(ticketRequestSchema);

export function issueTicket(x: Exchange, tickets: Tickets): Reply {
  const principal = x.peek("principal");
  if (principal?.kind !== "key") return refuse("GATEWAY_UNAUTHORIZED");
  if (!principal.key.id.startsWith(keyIdPrefix)) return needsKey;
  const json = x.json();
  if (!json.ok) return refuse("GATEWAY_INVALID_PARAMS", { message: "the body is not valid JSON" });
  if (!isTicketRequest(json.value)) return schemaViolation(isTicketRequest.errors?.[0]);
  const { model, origin = x.request.headers.origin } = json.value;
  const { ticket, expiresAt } = tickets.issue({ keyId: principal.key.id, model, origin });
  return {
    status: 201,
    headers: ["content-type", "application/json", "cache-control", "no-store"],
    body: JSON.stringify({ ticket, expires_at: new Date(expiresAt).toISOString() }),
  };
}

/** RFC 6454 section 6.2: an origin has no path and no default port, and its host is in a browser's spelling. */
function isOrigin(text: string): boolean {
  return URL.parse(text)?.origin === text;
}

function schemaViolation(error: SchemaError | undefined): Reply {
  const { instancePath = "", message: reason = "is not allowed" } = error ?? {};
  return refuse("GATEWAY_INVALID_PARAMS", {
    message: "the body does not match its schema",
    details: { violations: [{ path: `/body${instancePath}`, reason }] },
  });
}
