import assert from "node:assert/strict";
import { request } from "node:http";
import type { TestContext } from "node:test";
import type { Clock } from "../../../../../src/plugin.ts";
import { ask, startWatched, type Answer, type Watched } from "../gateway.ts";
import {
  clientId,
  clientSecret,
  startScriptedProvider,
  type Confirmed,
  type ScriptedProvider,
} from "./scripted-provider.ts";

/** `more`: further members of `oidc`, in YAML. */
export function section(issuer: string, more = "roles: { admin: [ops], viewer: [staff] }"): string {
  return `
dashboard:
  oidc: { issuer: "${issuer}", clientId: ${clientId}, clientSecret: "${clientSecret}", ${more} }
`;
}

export function startWithOidc(
  issuer: string,
  more: {
    readonly options?: string;
    readonly append?: string;
    readonly clock?: Clock;
    readonly env?: Readonly<Record<string, string>>;
  } = {},
): Promise<Watched> {
  const { options, append = "", ...rest } = more;
  return startWatched({ append: section(issuer, options) + append, ...rest });
}

export async function startBoth(
  t: TestContext,
  options: Parameters<typeof startWithOidc>[1] = {},
): Promise<{ readonly provider: ScriptedProvider; readonly gateway: Watched }> {
  const provider = await startScriptedProvider();
  const gateway = await startWithOidc(provider.issuer, options);
  t.after(async () => {
    await gateway[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  });
  return { provider, gateway };
}

export function begin(gateway: Pick<Watched, "adminUrl">): Promise<Answer> {
  return ask(gateway, "session/oidc", { method: "POST" });
}

/** Begins a sign-in that succeeds so far. Resolves with the address at the provider, and the cookie of the sign-in. */
export async function begun(
  gateway: Pick<Watched, "adminUrl">,
): Promise<{ readonly url: string; readonly cookie: string }> {
  const { status, body, headers } = await begin(gateway);
  assert.equal(status, 200, JSON.stringify(body));
  return { url: body.url, cookie: cookieIn(headers.getSetCookie()[0] ?? "") };
}

export interface Returned {
  readonly status: number;
  readonly location: string | undefined;
  readonly cookies: readonly string[];
  readonly text: string;
}

/** Opens the address to which the provider has sent the browser, as a navigation from another site. */
export function open(url: URL, cookie: string | undefined): Promise<Returned> {
  const { promise, resolve, reject } = Promise.withResolvers<Returned>();
  const headers = { "sec-fetch-site": "cross-site", ...(cookie !== undefined && { cookie }) };
  request(url, { headers }, (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (text += chunk));
    response.on("end", () => {
      const { location, "set-cookie": cookies = [] } = response.headers;
      resolve({ status: response.statusCode ?? 0, location, cookies, text });
    });
  })
    .on("error", reject)
    .end();
  return promise;
}

export async function tryToSignIn(
  gateway: Pick<Watched, "adminUrl">,
  provider: ScriptedProvider,
  confirmed: Confirmed,
): Promise<Returned> {
  const { url, cookie } = await begun(gateway);
  return open(provider.confirm(url, confirmed), cookie);
}

export async function enter(
  gateway: Pick<Watched, "adminUrl">,
  provider: ScriptedProvider,
  claims: NonNullable<Confirmed["claims"]>,
): Promise<string> {
  const returned = await tryToSignIn(gateway, provider, { claims });
  assert.equal(returned.status, 303, returned.text);
  return sessionIn(returned);
}

export function sessionIn({ cookies }: Returned): string {
  return cookieIn(cookies.find((each) => each.startsWith("sluice_dashboard_")) ?? "");
}

function cookieIn(field: string): string {
  return field.split(";", 1)[0] ?? "";
}

export function assertRefused(
  { status, text, cookies }: Returned,
  wanted: { readonly status: number; readonly code: string; readonly message: RegExp },
): void {
  assert.equal(status, wanted.status, text);
  assert.ok(text.includes(`<code>${wanted.code}</code>`), text);
  assert.match(text, wanted.message);
  assert.ok(!cookies.some((each) => each.startsWith("sluice_dashboard_")), "no session begins");
}
