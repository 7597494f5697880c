/**
 * The page that shows the document: Swagger UI, from this package. The same route serves its files (`?asset=NAME`), so
 * that the page needs only one route. The compressed files are kept only until the next garbage collection.
 */
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { refuse, type Reply, type RequestHead } from "sluice-gateway/plugin";
import { etagOf, matchesEtag } from "sluice-gateway/internal/http";
import { packageFile } from "sluice-gateway/internal/package-files";
import { escapeHtml } from "../escape-html.ts";

/** Routes change only with a reload. Users may see the old document for up to five minutes. */
export const cacheControl = "public, max-age=300";

const script = "text/javascript; charset=utf-8";
const style = "text/css; charset=utf-8";

const files = {
  "swagger-ui-bundle.js": script,
  "swagger-ui.css": style,
  "viewer.js": script,
  "samples.js": script,
  "viewer.css": style,
} as const;

const compress = promisify(gzip);

interface ViewerOptions {
  readonly title: string;
  readonly document: string;
  readonly url: string;
  readonly version: string;
}

export function viewerOf(
  options: ViewerOptions,
  source: string,
): (request: Pick<RequestHead, "headers" | "query">) => Reply | Promise<Reply> {
  const compressed = new Map<string, WeakRef<Promise<Buffer>>>();
  const security = securityHeaders(options.url);
  const send = (
    type: string,
    etag: string,
    { headers }: Pick<RequestHead, "headers">,
    body: () => Promise<Uint8Array>,
  ): Reply | Promise<Reply> => {
    const shared = ["etag", etag, "cache-control", cacheControl, "vary", "accept-encoding"];
    const all = [...shared, ...security];
    if (matchesEtag(headers["if-none-match"], etag)) return { status: 304, headers: all };
    const head = ["content-type", type, ...all];
    if (!/\bgzip\b/.test(headers["accept-encoding"]?.toString() ?? "")) {
      return body().then((bytes) => ({ status: 200, headers: head, body: bytes }));
    }
    let bytes = compressed.get(etag)?.deref();
    if (bytes === undefined) {
      bytes = body().then(async (whole) => compress(whole));
      compressed.set(etag, new WeakRef(bytes));
    }
    const encoded = [...head, "content-encoding", "gzip"];
    return bytes.then((small) => ({ status: 200, headers: encoded, body: small }));
  };
  const generated = {
    page: { type: "text/html; charset=utf-8", text: pageOf(options) },
    document: { type: "application/json", text: source },
  };
  const sendText = (
    { type, text }: { readonly type: string; readonly text: string },
    request: Pick<RequestHead, "headers">,
  ): Reply | Promise<Reply> => send(type, etagOf(text), request, async () => Buffer.from(text));
  return (request) => {
    const name = new URLSearchParams(request.query).get("asset");
    if (name === null) return sendText(generated.page, request);
    if (name === "openapi.json") return sendText(generated.document, request);
    if (!isFile(name)) return refuse("GATEWAY_NOT_FOUND");
    const path = pathOf(name);
    return stat(path).then(({ size, mtimeMs }) =>
      send(files[name], etagOf(`${options.version} ${name} ${size} ${mtimeMs}`), request, () =>
        readFile(path),
      ),
    );
  };
}

function isFile(name: string): name is keyof typeof files {
  return Object.hasOwn(files, name);
}

/** In the published package, the files of Swagger UI are in the folder of the viewer. */
function pathOf(name: keyof typeof files): string {
  const published = packageFile(`plugins/edge/openapi/viewer/${name}`);
  if (existsSync(published)) return published;
  return fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`));
}

/**
 * Allows no inline script or style, no `eval` and no other origin. Swagger UI has its icons as `data:` URLs in its
 * style. The page may send requests to the gateway only, which `url` names if it is not the host of the page.
 */
function securityHeaders(url: string): readonly string[] {
  const gateway = url === "/" ? "" : ` ${new URL(url).origin}`;
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    `connect-src 'self'${gateway}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return [
    "content-security-policy",
    policy.join("; "),
    "x-content-type-options",
    "nosniff",
    "referrer-policy",
    "no-referrer",
  ];
}

function pageOf({ title, document, url }: ViewerOptions): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${escapeHtml(title)}</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="?asset=swagger-ui.css" />
    <link rel="stylesheet" href="?asset=viewer.css" />
    <script defer src="?asset=swagger-ui-bundle.js"></script>
    <script type="module" src="?asset=viewer.js"></script>
  </head>
  <body>
    <a class="skip" href="#viewer">To the operations</a>
    <header>
      <h1>${escapeHtml(title)}</h1>
      <p>For programs: <a href="${escapeHtml(document)}">the OpenAPI document</a>.</p>
    </header>
    <section aria-labelledby="authentication">
      <h2 id="authentication">Authentication</h2>
      <p>
        Send an API key with each request, in the header field
        <code>Authorization: Bearer gateway_…</code>. The operator of the gateway creates keys with
        <code>sluice keys create</code> or on the dashboard. Each operation lists the capabilities that its key must
        have.
      </p>
      <p>
        A request without a valid key is answered with 401 (<code>GATEWAY_UNAUTHORIZED</code>). A request whose key
        lacks the capability is answered with 403 (<code>GATEWAY_PERMISSION_DENIED</code>).
      </p>
      <p>
        <label for="key">API key for trying operations</label>
        <input id="key" type="password" autocomplete="off" spellcheck="false" aria-describedby="key-note" />
      </p>
      <p id="key-note">
        The page sends the key to this gateway only, and does not store it: reloading or closing the tab removes it. An
        operation that you execute is a real request, which the gateway charges.
      </p>
    </section>
    <main id="viewer" data-url="${escapeHtml(url)}">
      <noscript>The viewer needs JavaScript. You can read the OpenAPI document without it.</noscript>
    </main>
  </body>
</html>
`;
}
