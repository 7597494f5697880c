import { existsSync, readdirSync, statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { packageRoot } from "sluice-gateway/internal/package-files";
import { messageOf } from "sluice-gateway/internal/toolkit";
import type { Page } from "./paragraphs.ts";

export interface FolderOption {
  /** Path relative to pipeline.yaml. */
  readonly path: string;
  /** Base URL of the published pages; the path of each file is appended. */
  readonly url: string;
  /** Replaces `.md` in URLs (default `.md`). */
  readonly suffix: string;
}

export interface Sources {
  readonly own: boolean;
  readonly folders: readonly FolderOption[];
}

/** Limits that real documentation does not reach. A folder that was named by mistake can exceed them. */
export const maxFileBytes = 1_048_576;
const maxFiles = 10_000;

/** Base URL of Sluice's own pages. They are resources of this gateway, readable through /mcp. */
export const ownUrl = "docs://sluice/";

/** Thrown for a folder or file that cannot be indexed. The message names it and gives the reason. */
export class UnreadableDocs extends Error {}

/** Finds faults in the option `folders` without reading any file. `position` is an index into `folders`. */
export function folderProblems(
  folders: readonly FolderOption[],
  base: string,
): { position: number; member: "path" | "url"; message: string }[] {
  return folders.flatMap(({ path, url }, position) => {
    const folder = resolve(base, path);
    const problems: { position: number; member: "path" | "url"; message: string }[] = [];
    if (!isFolder(folder)) {
      const message = existsSync(folder)
        ? `${path} is not a folder`
        : `the folder ${path} does not exist`;
      problems.push({ position, member: "path", message });
    }
    const parsed = URL.parse(url);
    if (parsed === null || parsed.hash !== "" || parsed.search !== "") {
      const message = "expected an absolute URL without a query and a fragment";
      problems.push({ position, member: "url", message });
    }
    return problems;
  });
}

/**
 * The pages of each folder are ordered by path. `others`: number of pages that are not in these folders. Rejects with
 * `UnreadableDocs`.
 */
export async function folderPages(
  folders: readonly FolderOption[],
  base: string,
  others: number,
): Promise<Page[]> {
  const pages: Page[] = [];
  for (const { path, url, suffix } of folders) {
    const folder = resolve(base, path);
    for (const file of await markdownFiles(folder, maxFiles - others - pages.length)) {
      const published = file.replace(/\.(md|markdown)$/i, suffix);
      pages.push(await readPage(folder, file, pageUrl(url, published)));
    }
  }
  return pages;
}

/** Rejects with `UnreadableDocs`. */
export async function ownPages(): Promise<Page[]> {
  const docs = join(packageRoot, "docs");
  const files = isFolder(docs)
    ? (await markdownFiles(docs, maxFiles)).map((file) => `docs/${file}`)
    : [];
  // `globSync` would load much code at each start.
  const all = readdirSync(join(packageRoot, "plugins"), { recursive: true, encoding: "utf8" });
  const readmes = all
    .filter((path) => /^([^/\\]+[/\\]){0,2}README\.md$/.test(path))
    .map((path) => join("plugins", path))
    .toSorted();
  return Promise.all(
    [...files, ...readmes].map((file) => readPage(packageRoot, file, pageUrl(ownUrl, file))),
  );
}

/** Rejects with `UnreadableDocs`. */
export async function readOwnPage(url: string): Promise<string> {
  const file = decodeURIComponent(url.slice(ownUrl.length));
  return (await readPage(packageRoot, file, url)).markdown;
}

function pageUrl(base: string, path: string): string {
  const slash = base.endsWith("/") ? "" : "/";
  return base + slash + path.split("/").map(encodeURIComponent).join("/");
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Returns paths below `folder`, with slashes. Skips hidden files and folders, node_modules and symbolic links. */
async function markdownFiles(folder: string, max: number): Promise<string[]> {
  const files: string[] = [];
  const walk = async (inside: string): Promise<void> => {
    const entries = await readdir(join(folder, inside), { withFileTypes: true });
    for (const entry of entries) {
      const path = inside === "" ? entry.name : `${inside}/${entry.name}`;
      const isHidden = entry.name.startsWith(".") || entry.name === "node_modules";
      if (entry.isDirectory() && !isHidden) await walk(path);
      if (entry.isFile() && !isHidden && /\.(md|markdown)$/i.test(entry.name)) files.push(path);
      if (files.length > max) {
        throw new UnreadableDocs(
          `found more than ${maxFiles} Markdown files; the last folder was ${folder}`,
        );
      }
    }
  };
  try {
    await walk("");
  } catch (error) {
    throw readable(error, folder);
  }
  return files.toSorted();
}

async function readPage(folder: string, file: string, url: string): Promise<Page> {
  const path = join(folder, file);
  let bytes: Buffer;
  try {
    const { size } = await stat(path);
    if (size > maxFileBytes) {
      throw new UnreadableDocs(`${path} has ${size} bytes; the maximum is ${maxFileBytes}`);
    }
    bytes = await readFile(path);
  } catch (error) {
    throw readable(error, path);
  }
  return { url, name: nameOf(file), markdown: decode(bytes, path) };
}

/** The name of `guide/README.md` is `guide`. */
function nameOf(file: string): string {
  const name = basename(file).replace(/\.[^.]+$/, "");
  const parent = basename(dirname(file));
  return /^(readme|index)$/i.test(name) && parent !== "." ? parent : name;
}

function decode(bytes: Buffer, path: string): string {
  // Zero bytes are legal in UTF-8, but in a text file they mean that it is UTF-16.
  if (bytes.includes(0)) throw new UnreadableDocs(`${path} is not UTF-8 text`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableDocs(`${path} is not UTF-8 text`);
  }
}

function readable(error: unknown, path: string): UnreadableDocs {
  if (error instanceof UnreadableDocs) return error;
  const reason = messageOf(error);
  return new UnreadableDocs(`${path} cannot be read: ${reason}`);
}
