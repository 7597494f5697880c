/**
 * Serves the page and its assets: the files in page/, and the libraries that they import. They are read once and served
 * from memory.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { packageFile } from "sluice-gateway/package-files";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { etagOf, matchesEtag } from "sluice-gateway/http";
import { vendored, withServedImports } from "./vendored.ts";

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

let loaded: ReadonlyMap<string, Asset> | undefined;

/** Throws if a file is missing from the package. */
function assets(): ReadonlyMap<string, Asset> {
  loaded ??= new Map(
    [...ownFiles(), ...Object.keys(vendored)].map((name) => [name, read(name)] as const),
  );
  return loaded;
}

const folder = packageFile("plugins/dashboard/dashboard/page");

/** Returns the names of the files in page/, except the libraries. */
function ownFiles(): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll(sep, "/"))
    .filter((name) => extensionOf(name) in types && !(name in vendored));
}

function read(name: string): Asset {
  const module = vendored[name];
  const bytes = readFileSync(module === undefined ? join(folder, name) : library(name, module));
  const isCode = module !== undefined && name.endsWith(".js");
  const served = isCode ? Buffer.from(withServedImports(bytes.toString())) : bytes;
  return { bytes: served, type: types[extensionOf(name)] ?? "", etag: etagOf(served) };
}

/** In the published package, the libraries are in the folder of the page, under the names that the page uses. */
function library(name: string, module: string): string {
  const published = join(folder, name);
  return existsSync(published) ? published : fileURLToPath(import.meta.resolve(module));
}

function extensionOf(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
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
