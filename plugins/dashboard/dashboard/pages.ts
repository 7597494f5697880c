/** Serves the page and its assets. They are read once and served from memory. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { packageFile } from "sluice-gateway/internal/package-files";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { etagOf, matchesEtag } from "sluice-gateway/internal/http";
import { vendored, withServedImports } from "./vendored.ts";

interface Asset {
  readonly bytes: Buffer;
  readonly gzip: Buffer;
  readonly type: string;
  readonly etag: string;
}

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

let loaded: ReadonlyMap<string, Asset> | undefined;

/** Throws if a file is missing from the package. */
function assets(): ReadonlyMap<string, Asset> {
  loaded ??= load();
  return loaded;
}

/** One style sheet, which contains the others in their order. */
const styleSheet = "page.css";
/** Matches the links of index.html to the style sheets, with the name of the file. */
const styleLink = / *<link rel="stylesheet" href="\/dashboard\/assets\/([^"]+)" \/>\n/g;
/** The scripts that a page does not need at first: one runs before the modules, and the other draws charts. */
const notPreloaded = new Set(["theme.js", "lib/uplot.js"]);

function load(): ReadonlyMap<string, Asset> {
  const files = new Map(
    [...ownFiles(), ...Object.keys(vendored)].map((name) => [name, read(name)] as const),
  );
  const html = (files.get("index.html") ?? Buffer.alloc(0)).toString();
  const styles = [...html.matchAll(styleLink)].map(([, name = ""]) => files.get(name));
  files.set(styleSheet, Buffer.concat(styles.filter((bytes) => bytes !== undefined)));
  files.set("index.html", Buffer.from(withFewerRoundTrips(html, [...files.keys()])));
  return new Map([...files].map(([name, bytes]) => [name, assetOf(name, bytes)] as const));
}

/**
 * Links the one style sheet instead of the others, and lets the browser load all modules at once. Otherwise the
 * browser discovers them level by level, from the imports of modules that have loaded.
 */
function withFewerRoundTrips(html: string, names: readonly string[]): string {
  const modules = names.filter((name) => name.endsWith(".js") && !notPreloaded.has(name));
  const link = (rel: string, name: string): string =>
    `    <link rel="${rel}" href="/dashboard/assets/${name}" />\n`;
  const links = [
    link("stylesheet", styleSheet),
    ...modules.map((name) => link("modulepreload", name)),
  ];
  return html.replaceAll(styleLink, "").replace("  </head>", `${links.join("")}  </head>`);
}

const folder = packageFile("plugins/dashboard/dashboard/page");

function ownFiles(): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll(sep, "/"))
    .filter((name) => extensionOf(name) in types && !(name in vendored));
}

function read(name: string): Buffer {
  const module = vendored[name];
  const bytes = readFileSync(module === undefined ? join(folder, name) : library(name, module));
  const isCode = module !== undefined && name.endsWith(".js");
  return isCode ? Buffer.from(withServedImports(bytes.toString())) : bytes;
}

function assetOf(name: string, bytes: Buffer): Asset {
  const type = types[extensionOf(name)] ?? "";
  return { bytes, gzip: gzipSync(bytes), type, etag: etagOf(bytes) };
}

/** In the published package, the libraries are in the folder of the page, under the names that the page uses. */
function library(name: string, module: string): string {
  const published = join(folder, name);
  return existsSync(published) ? published : fileURLToPath(import.meta.resolve(module));
}

function extensionOf(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}

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
  void reply.header("vary", "accept-encoding");
  if (matchesEtag(request.headers["if-none-match"], asset.etag)) return reply.code(304).send();
  void reply.type(asset.type);
  if (!/\bgzip\b/.test(request.headers["accept-encoding"]?.toString() ?? "")) {
    return reply.send(asset.bytes);
  }
  return reply.header("content-encoding", "gzip").send(asset.gzip);
}
