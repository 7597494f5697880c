/** The library: every page for reading and the index over their paragraphs, made of Markdown or loaded from a file. */
import { createHash } from "node:crypto";
import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import MiniSearch, { type AsPlainObject } from "minisearch";
import { readPages, UnreadableDocs, type Sources } from "./folders.ts";
import { paragraphsOf, type Page, type PageParagraphs, type Paragraph } from "./paragraphs.ts";
import { Postings, type PostingLists } from "./postings.ts";
import { buildIndex, engineOptions, type SearchIndex } from "./search-index.ts";

export interface Library {
  readonly pages: readonly LibraryPage[];
  readonly index: SearchIndex;
}

export interface LibraryPage {
  readonly url: string;
  readonly title: string;
  readonly markdown: string;
}

const mostParagraphs = 100_000;
const mostIndexBytes = 512 * 1_048_576;
/** Counts up whenever a file of an earlier version would be misread; terms are part of that. */
const format = 2;

interface IndexFile {
  readonly format: typeof format;
  readonly sources: Sources;
  readonly pages: readonly LibraryPage[];
  readonly paragraphs: readonly Paragraph[];
  readonly postings: PostingLists;
  readonly engine: AsPlainObject;
}

/** Reads and indexes the Markdown. Throws UnreadableDocs. */
export async function makeLibrary(sources: Sources, base: string): Promise<Library> {
  const pages: LibraryPage[] = [];
  const all: Paragraph[] = [];
  for (const page of await readPages(sources, base)) {
    const { title, paragraphs } = parse(page);
    pages.push({ url: page.url, title, markdown: page.markdown });
    for (const paragraph of paragraphs) all.push(paragraph);
    if (all.length > mostParagraphs) {
      throw new UnreadableDocs(`there are more than ${mostParagraphs} paragraphs`);
    }
  }
  return { pages, index: buildIndex(all) };
}

function parse(page: Page): PageParagraphs {
  try {
    return paragraphsOf(page);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UnreadableDocs(`the Markdown of ${page.url} cannot be parsed: ${reason}`);
  }
}

/** Writes a library to a file, whole or not at all. */
export async function writeLibrary(
  file: string,
  library: Library,
  sources: Sources,
): Promise<void> {
  const { paragraphs, postings, engine } = library.index;
  const content: IndexFile = {
    format,
    sources,
    pages: library.pages,
    paragraphs,
    postings: postings.toJSON(),
    engine: engine.toJSON(),
  };
  const unfinished = `${file}.${process.pid}.tmp`;
  try {
    await writeFile(unfinished, JSON.stringify(content));
    await rename(unfinished, file);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
}

/** Loads what `writeLibrary` wrote. Throws UnreadableDocs, also when it was made of other sources. */
export async function loadLibrary(file: string, sources: Sources): Promise<Library> {
  const content = await readIndexFile(file);
  if (fingerprint(content.sources) !== fingerprint(sources)) {
    throw new UnreadableDocs(
      `${file} was made of other folders than the options name: run \`sluice docs index\``,
    );
  }
  try {
    const engine = MiniSearch.loadJS(content.engine, engineOptions);
    const { paragraphs, pages } = content;
    if (engine.documentCount !== paragraphs.length) throw new RangeError("its parts do not fit");
    const postings = new Postings(content.postings, paragraphs.length);
    return { pages, index: { paragraphs, postings, engine } };
  } catch {
    throw broken(file);
  }
}

async function readIndexFile(file: string): Promise<IndexFile> {
  let content: unknown;
  try {
    const { size } = await stat(file);
    if (size > mostIndexBytes) throw broken(file);
    content = JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    if (error instanceof Error && "code" in error) {
      throw new UnreadableDocs(`${file} cannot be read (${String(error.code)})`);
    }
    throw broken(file);
  }
  if (!isIndexFile(content)) throw broken(file);
  return content;
}

function isIndexFile(content: unknown): content is IndexFile {
  if (typeof content !== "object" || content === null) return false;
  // Members are looked at one by one; the file is the operator's own, so its depths are trusted.
  const file = content as Partial<Record<keyof IndexFile, unknown>>;
  const lists = [file.pages, file.paragraphs];
  return (
    file.format === format &&
    lists.every(Array.isArray) &&
    typeof file.sources === "object" &&
    typeof file.engine === "object" &&
    typeof file.postings === "object"
  );
}

function broken(file: string): UnreadableDocs {
  return new UnreadableDocs(
    `${file} is no index of this version of Sluice: run \`sluice docs index\``,
  );
}

function fingerprint(sources: Sources): string {
  const { own, folders } = sources;
  const parts = folders.map(({ path, url, suffix }) => [path, url, suffix]);
  return createHash("sha256")
    .update(JSON.stringify([own, parts]))
    .digest("hex");
}
