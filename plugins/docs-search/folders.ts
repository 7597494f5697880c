/** Reads the Markdown that the index is made of: the project's own and the operator's folders. */
import { existsSync, statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Page } from "./paragraphs.ts";

export interface FolderOption {
  /** Counted from pipeline.yaml. */
  readonly path: string;
  /** Where the folder's files are published; their paths are added to it. */
  readonly url: string;
  /** What stands in place of `.md` in urls (`.md`). */
  readonly suffix: string;
}

/** What the index is made of; also kept in the index's file. */
export interface Sources {
  readonly own: boolean;
  readonly folders: readonly FolderOption[];
}

/** Bounds that no documentation reaches and that a folder named by mistake does. */
export const mostFileBytes = 1_048_576;
export const mostFiles = 10_000;

/** Base of the urls of the project's own pages: resources of this gateway, readable through /mcp. */
export const ownUrl = "docs://sluice/";

/** Where the package lies: docs/ and plugins/ stand side by side, in the sources and in the published package. */
const packageFolder = resolve(import.meta.dirname, "../..");

/** A folder or file that cannot be indexed: the sentence says which and why. */
export class UnreadableDocs extends Error {}

/** What is wrong with the folders before any of them is read; `position` is the one in `folders`. */
export function folderProblems(
  folders: readonly FolderOption[],
  base: string,
): { position: number; member: "path" | "url"; message: string }[] {
  return folders.flatMap(({ path, url }, position) => {
    const folder = resolve(base, path);
    const problems: { position: number; member: "path" | "url"; message: string }[] = [];
    if (!isFolder(folder)) {
      const message = existsSync(folder) ? `${path} is no folder` : `there is no folder ${path}`;
      problems.push({ position, member: "path", message });
    }
    const parsed = URL.parse(url);
    if (parsed === null || parsed.hash !== "" || parsed.search !== "") {
      const message = "the url is to be absolute, without a query and a fragment";
      problems.push({ position, member: "url", message });
    }
    return problems;
  });
}

/** All pages, own ones first, each folder's in the order of their paths. Throws UnreadableDocs. */
export async function readPages(sources: Sources, base: string): Promise<Page[]> {
  const pages = sources.own ? await ownPages() : [];
  for (const { path, url, suffix } of sources.folders) {
    const folder = resolve(base, path);
    for (const file of await markdownFiles(folder, mostFiles - pages.length)) {
      const published = file.replace(/\.(md|markdown)$/i, suffix);
      pages.push(await readPage(folder, file, pageUrl(url, published)));
    }
  }
  return pages;
}

async function ownPages(): Promise<Page[]> {
  const docs = join(packageFolder, "docs");
  const files = isFolder(docs)
    ? (await markdownFiles(docs, mostFiles)).map((file) => `docs/${file}`)
    : [];
  const plugins = await readdir(join(packageFolder, "plugins"), { withFileTypes: true });
  const readmes = ["", ...plugins.map(({ name }) => `${name}/`).toSorted()]
    .map((folder) => `plugins/${folder}README.md`)
    .filter((file) => existsSync(join(packageFolder, file)));
  return Promise.all(
    [...files, ...readmes].map((file) => readPage(packageFolder, file, pageUrl(ownUrl, file))),
  );
}

function pageUrl(base: string, path: string): string {
  const slash = base.endsWith("/") ? "" : "/";
  return base + slash + path.split("/").map(encodeURIComponent).join("/");
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Paths below `folder`, with slashes. Hidden folders, node_modules and links are left out. */
async function markdownFiles(folder: string, most: number): Promise<string[]> {
  const files: string[] = [];
  const walk = async (inside: string): Promise<void> => {
    const entries = await readdir(join(folder, inside), { withFileTypes: true });
    for (const entry of entries) {
      const path = inside === "" ? entry.name : `${inside}/${entry.name}`;
      const isHidden = entry.name.startsWith(".") || entry.name === "node_modules";
      if (entry.isDirectory() && !isHidden) await walk(path);
      if (entry.isFile() && !isHidden && /\.(md|markdown)$/i.test(entry.name)) files.push(path);
      if (files.length > most) {
        throw new UnreadableDocs(`more than ${mostFiles} Markdown files, the last in ${folder}`);
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
    if (size > mostFileBytes) {
      throw new UnreadableDocs(`${path} has ${size} bytes; the most are ${mostFileBytes}`);
    }
    bytes = await readFile(path);
  } catch (error) {
    throw readable(error, path);
  }
  return { url, name: nameOf(file), markdown: decode(bytes, path) };
}

/** `guide/README.md` is called guide. */
function nameOf(file: string): string {
  const name = basename(file).replace(/\.[^.]+$/, "");
  const parent = basename(dirname(file));
  return /^(readme|index)$/i.test(name) && parent !== "." ? parent : name;
}

function decode(bytes: Buffer, path: string): string {
  // Zero bytes are legal UTF-8 and the mark of UTF-16, which is not.
  if (bytes.includes(0)) throw new UnreadableDocs(`${path} is not UTF-8 text`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableDocs(`${path} is not UTF-8 text`);
  }
}

function readable(error: unknown, path: string): UnreadableDocs {
  if (error instanceof UnreadableDocs) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new UnreadableDocs(`${path} cannot be read: ${reason}`);
}
