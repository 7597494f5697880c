/** `POST /v1/confidential/tickets`: what a page shows instead of an API key. */
import { refuse, type Exchange, type Reply, type Tickets } from "sluice-gateway/plugin";

interface Wish {
  readonly model: string | undefined;
  readonly origin: string | undefined;
}

const maxNameLength = 256;

export function issueTicket(x: Exchange, tickets: Tickets): Reply {
  const principal = x.peek("principal");
  if (principal?.kind !== "key") return refuse("GATEWAY_UNAUTHORIZED");
  const json = x.json();
  const wish = json.ok ? readWish(json.value) : "the body must be JSON";
  if (typeof wish === "string") return refuse("GATEWAY_INVALID_PARAMS", { message: wish });
  const { model, origin = x.request.headers.origin } = wish;
  const { ticket, expiresAt } = tickets.issue({ keyId: principal.key.id, model, origin });
  return {
    status: 201,
    headers: ["content-type", "application/json", "cache-control", "no-store"],
    body: JSON.stringify({ ticket, expires_at: new Date(expiresAt).toISOString() }),
  };
}

/** A text says what is wrong. */
function readWish(value: unknown): Wish | string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return "the body must be an object";
  }
  // An object from JSON; each member is looked at below.
  const { model, origin, ...others } = value as Readonly<Record<string, unknown>>;
  const [stranger] = Object.keys(others);
  if (stranger !== undefined) return `${JSON.stringify(stranger.slice(0, 64))} is not known`;
  if (model !== undefined && !isName(model)) return "model must be a model's id";
  if (origin !== undefined && !isOrigin(origin)) {
    return "origin must be an origin such as https://app.example";
  }
  return { model, origin };
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= maxNameLength;
}

function isOrigin(value: unknown): value is string {
  const url = typeof value === "string" ? URL.parse(value) : null;
  return url !== null && url.origin === value;
}
