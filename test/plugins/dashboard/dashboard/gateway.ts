/**
 * A whole gateway for tests of its dashboard, with a surface that costs credit, a free one, and keys of administrators.
 */
import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../../../plugins/contracts/testing.ts";
import type { Clock } from "../../../../src/plugin.ts";

/** A call of /call costs 500 milli-CU. */
export const pipeline = pipelineWith("");

function pipelineWith(adminOptions: string): string {
  return `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}", hosts: [gateway.internal]${adminOptions} }
secret: "\${GATEWAY_SECRET:-}"
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL:-}", replica: "\${REPLICA_NAME:-}" }
plans:
  free: { rps: 1000, includedCu: 1000, overageUsdPerCu: none }
  enterprise: { rps: 1000, includedCu: 1000, overageUsdPerCu: none }
lists:
  edge: [request-id, authenticate]
unmatched: [request-id, authenticate]
routes:
  - { path: /call, methods: [GET], run: [{ use: edge }, { authorize: { require: key } }, { meter: { price: 500 } }], to: discovery }
  - { path: /free, methods: [GET], run: [{ use: edge }, { validate: { query: { type: object, additionalProperties: false } }, mode: shadow }], to: discovery }
`;
}

export interface Watched extends TestGateway {
  /** A key of another workspace that administers that workspace alone. */
  readonly tenant: TestKey;
}

/** The gateway's first key has `platform:admin`. `append`: further sections of pipeline.yaml. */
export async function startWatched(
  options: {
    readonly clock?: Clock;
    readonly env?: Readonly<Record<string, string>>;
    readonly append?: string;
    readonly adminOptions?: string;
  } = {},
): Promise<Watched> {
  const { append = "", adminOptions = "", ...more } = options;
  const gateway = await startTestGateway({
    pipeline: pipelineWith(adminOptions) + append,
    account: { capabilities: ["platform:admin", "ledger:read"], cuLimit24hMilli: 2_000 },
    ...more,
  });
  const tenant = await gateway.issue({
    plan: "free",
    capabilities: ["workspace:admin", "ledger:read"],
  });
  return Object.assign(gateway, { tenant });
}

export async function call(
  { url }: Pick<TestGateway, "url">,
  key: string | undefined,
  path = "/call",
): Promise<number> {
  const response = await fetch(url + path, {
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
  });
  await response.arrayBuffer();
  return response.status;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** Calls the API as the page does. A header that is undefined in `headers` is omitted. */
export async function ask(
  { adminUrl }: Pick<TestGateway, "adminUrl">,
  path: string,
  more: {
    readonly cookie?: string;
    readonly method?: string;
    readonly body?: unknown;
    readonly text?: string;
    readonly headers?: Readonly<Record<string, string | undefined>>;
  } = {},
): Promise<Answer> {
  const { cookie, body, method = body === undefined ? "GET" : "POST" } = more;
  const text = more.text ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = new Headers();
  const wanted = {
    "x-sluice-dashboard": "1",
    origin: method === "GET" ? undefined : adminUrl,
    cookie,
    // Each call is a form of its own, unless the test gives a key.
    "idempotency-key": method === "GET" ? undefined : randomUUID(),
    "content-type": text === undefined ? undefined : "application/json",
    ...more.headers,
  };
  for (const [name, value] of Object.entries(wanted)) {
    if (value !== undefined) headers.set(name, value);
  }
  const response = await fetch(`${adminUrl}/dashboard/api/${path}`, {
    method,
    headers,
    ...(text !== undefined && { body: text }),
  });
  const answer = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: answer === "" ? undefined : JSON.parse(answer),
  };
}

export async function signIn(gateway: Pick<TestGateway, "adminUrl">, key: string): Promise<string> {
  const { status, headers } = await ask(gateway, "session", { body: { key } });
  const cookie = headers.get("set-cookie")?.split(";", 1)[0];
  if (status !== 200 || cookie === undefined) throw new Error(`not signed in: ${status}`);
  return cookie;
}

export interface User {
  readonly cookie: string;
  get(path: string): Promise<Answer>;
  post(
    path: string,
    body: object,
    headers?: Readonly<Record<string, string | undefined>>,
  ): Promise<Answer>;
}

export async function userOf(gateway: Pick<TestGateway, "adminUrl">, key: string): Promise<User> {
  const cookie = await signIn(gateway, key);
  return {
    cookie,
    get: (path) => ask(gateway, path, { cookie }),
    post: (path, body, headers = {}) => ask(gateway, path, { cookie, body, headers }),
  };
}

export async function enter(page: Page, key: string): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("navigation").waitFor();
}
