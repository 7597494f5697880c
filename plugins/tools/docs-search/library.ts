/** The library: every page for reading, and the search in the paragraphs of all pages. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as otherWork } from "node:timers/promises";
import { packageFile } from "sluice-gateway/internal/package-files";
import { folderPages, ownPages, UnreadableDocs, type Sources } from "./folders.ts";
import type { Page, PageParagraphs } from "./paragraphs.ts";
import { SearchIndex, type Hit } from "./search-index.ts";

export interface Library {
  readonly pages: readonly LibraryPage[];
  /** Returns the best `limit` paragraphs, best first. The first search waits until the paragraphs are indexed. */
  readonly search: (query: string, limit: number) => Promise<Hit[]>;
}

export interface LibraryPage {
  readonly url: string;
  readonly title: string;
  readonly markdown: string;
}

/** MiniSearch takes about 1 µs per posting that it reads (notes.md), so this bounds the cost of a query. */
const maxParagraphs = 10_000;

/**
 * Opens the library of the Markdown files. `base`: the folder of pipeline.yaml. Rejects with `UnreadableDocs`.
 *
 * Even loading the index of Sluice's own pages takes memory, so the first search does it. The pages
 * of the operator's folders are parsed here, because a start must refuse a folder that cannot be indexed.
 */
export async function openLibrary(sources: Sources, base: string): Promise<Library> {
  const own = sources.own ? await ownPages() : [];
  const others = await folderPages(sources.folders, base, own.length);
  const parsed = others.length === 0 ? [] : await parsePages(others);
  const titled = [
    ...own.map((page) => ({ ...page, title: firstHeading(page) })),
    ...others.map((page, position) => ({ ...page, title: parsed[position]?.title ?? page.name })),
  ];
  const build = async (): Promise<SearchIndex> => {
    const built = await (sources.own ? ownIndex(own) : SearchIndex.build([]));
    await built.add(parsed.flatMap(({ paragraphs }) => paragraphs));
    return built;
  };
  let index: Promise<SearchIndex> | undefined;
  return {
    pages: titled.map(({ url, title, markdown }) => ({ url, title, markdown })),
    search: async (query, limit) => (await (index ??= build())).search(query, limit),
  };
}

/** The index of Sluice's own pages. The build of the package writes it; a checkout does not have it. */
export const indexFile = "plugins/tools/docs-search/index.json";

async function ownIndex(own: readonly Page[]): Promise<SearchIndex> {
  const file = packageFile(indexFile);
  if (existsSync(file)) return SearchIndex.load(await readFile(file, "utf8"));
  const parsed = await parsePages(own);
  return SearchIndex.build(parsed.flatMap(({ paragraphs }) => paragraphs));
}

/** Returns the content of `indexFile`. */
export async function ownIndexJson(): Promise<string> {
  return (await ownIndex(await ownPages())).toJson();
}

/** Sluice's own pages start with their title, which has no markup. */
function firstHeading({ markdown, name }: Page): string {
  return /^# (.+)$/m.exec(markdown)?.[1] ?? name;
}

/** Parses pages, and lets other work run after each page. Rejects with `UnreadableDocs`. */
async function parsePages(pages: readonly Page[]): Promise<PageParagraphs[]> {
  // The Markdown parser is loaded only where it is needed.
  const { paragraphsOf } = await import("./paragraphs.ts");
  const parsed: PageParagraphs[] = [];
  let count = 0;
  for (const page of pages) {
    const one = parsePage(page, paragraphsOf);
    parsed.push(one);
    count += one.paragraphs.length;
    if (count > maxParagraphs) {
      throw new UnreadableDocs(
        `found more than ${maxParagraphs} paragraphs; the last page was ${page.url}`,
      );
    }
    await otherWork();
  }
  return parsed;
}

function parsePage(page: Page, parse: (page: Page) => PageParagraphs): PageParagraphs {
  try {
    return parse(page);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UnreadableDocs(`the Markdown of ${page.url} cannot be parsed: ${reason}`);
  }
}
