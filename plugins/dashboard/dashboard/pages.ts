/**
 * Serves the page and its assets: the files in page/, and uPlot, which draws its charts. They are read once and served
 * from memory.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { packageFile } from "sluice-gateway/package-files";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { etagOf, matchesEtag } from "sluice-gateway/http";

interface Asset {
  readonly bytes: Buffer;
  readonly type: string;
  readonly etag: string;
}

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** Files in plugins/dashboard/dashboard/page. */
const own = [
  "index.html",
  "icon.svg",
  "theme.css",
  "base.css",
  "frame.css",
  "parts.css",
  "tables.css",
  "bars.css",
  "controls.css",
  "pipeline.css",
  "main.js",
  "api.js",
  "chart.js",
  "dialog.js",
  "dom.js",
  "exchanges.js",
  "format.js",
  "keys.js",
  "key-dialogs.js",
  "live.js",
  "health.js",
  "pipeline.js",
  "explanation-dialog.js",
  "error-line.js",
  "sign-in.js",
  "theme.js",
  "usage.js",
] as const;

let loaded: ReadonlyMap<string, Asset> | undefined;

/** Throws if a file is missing from the package. */
function assets(): ReadonlyMap<string, Asset> {
  loaded ??= new Map([
    ...own.map((name) => [name, read(name, pageFile(name))] as const),
    ["uplot.js", read("uplot.js", uplotFile("uplot.js", "uPlot.esm.js"))],
    ["uplot.css", read("uplot.css", uplotFile("uplot.css", "uPlot.min.css"))],
  ]);
  return loaded;
}

function pageFile(name: string): string {
  return packageFile(`plugins/dashboard/dashboard/page/${name}`);
}

/** In the published package the files of uPlot are in the folder of the page, under the names that the page uses. */
function uplotFile(name: string, source: string): string {
  const published = pageFile(name);
  if (existsSync(published)) return published;
  return fileURLToPath(import.meta.resolve(`uplot/dist/${source}`));
}

function read(name: string, path: string): Asset {
  const bytes = readFileSync(path);
  const type = types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  return { bytes, type, etag: etagOf(bytes) };
}

/** Serves the page at /dashboard and its files below /dashboard/assets. */
export function servePages(scope: FastifyInstance): void {
  for (const [name, asset] of assets()) {
    // The page has the path with and without a trailing slash.
    const path = name === "index.html" ? "/" : `/assets/${name}`;
    scope.get(path, (request, reply) => send(request, reply, asset));
  }
}

function send(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  // Browsers must revalidate each time, so that a new release is shown at once.
  void reply.header("cache-control", "no-cache").header("etag", asset.etag);
  if (matchesEtag(request.headers["if-none-match"], asset.etag)) return reply.code(304).send();
  return reply.type(asset.type).send(asset.bytes);
}
