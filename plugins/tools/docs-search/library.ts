import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setImmediate as otherWork } from "node:timers/promises";
import { packageFile } from "sluice-gateway/internal/package-files";
import { messageOf } from "sluice-gateway/internal/toolkit";
import { folderPages, ownPages, readOwnPage, UnreadableDocs, type Sources } from "./folders.ts";
import type { Page, PageParagraphs } from "./paragraphs.ts";
import { SearchIndex, type Hit } from "./search-index.ts";

export interface Library {
  readonly pages: readonly LibraryPage[];
  /** Returns the best `limit` paragraphs, best first. The first search waits until the paragraphs are indexed. */
  readonly search: (query: string, limit: number) => Promise<Hit[]>;
}

interface ListedPage {
  readonly url: string;
  readonly title: string;
  readonly bytes: number;
}

export interface LibraryPage extends ListedPage {
  readonly read: () => string | Promise<string>;
}

/** MiniSearch takes about 1 µs per posting that it reads (notes.md), so this bounds the cost of a query. */
const maxParagraphs = 10_000;

/**
 * `base`: the folder of pipeline.yaml. Rejects with `UnreadableDocs`.
 *
 * Sluice's own pages and their index take time and memory, so they are read when they are needed. The pages of the
 * operator's folders are parsed here, because a start must refuse a folder that cannot be indexed.
 */
export async function openLibrary(sources: Sources, base: string): Promise<Library> {
  const own = sources.own ? await ownList() : [];
  const others = await folderPages(sources.folders, base, own.length);
  const parsed = others.length === 0 ? [] : await parsePages(others);
  const pages = others.map(({ url, name, markdown }, position) => ({
    url,
    title: parsed[position]?.title ?? name,
    bytes: Buffer.byteLength(markdown),
    read: () => markdown,
  }));
  const build = async (): Promise<SearchIndex> => {
    const built = await (sources.own ? ownIndex() : SearchIndex.build([]));
    await built.add(parsed.flatMap(({ paragraphs }) => paragraphs));
    return built;
  };
  let index: Promise<SearchIndex> | undefined;
  return {
    pages: [...own.map((page) => ({ ...page, read: () => readOwnPage(page.url) })), ...pages],
    search: async (query, limit) => (await (index ??= build())).search(query, limit),
  };
}

/** The build of the package writes these files; a checkout does not have them. */
const written = {
  list: "plugins/tools/docs-search/pages.json",
  index: "plugins/tools/docs-search/index.json",
};

export async function ownFiles(): Promise<readonly (readonly [path: string, text: string])[]> {
  return [
    [written.list, JSON.stringify(await ownList())],
    [written.index, (await ownIndex()).toJson()],
  ];
}

async function ownList(): Promise<ListedPage[]> {
  const file = packageFile(written.list);
  // Only `ownFiles` returns this text.
  if (existsSync(file)) return JSON.parse(await readFile(file, "utf8")) as ListedPage[];
  return (await ownPages()).map((page) => ({
    url: page.url,
    title: firstHeading(page),
    bytes: Buffer.byteLength(page.markdown),
  }));
}

async function ownIndex(): Promise<SearchIndex> {
  const file = packageFile(written.index);
  if (existsSync(file)) return SearchIndex.load(await readFile(file, "utf8"));
  const parsed = await parsePages(await ownPages());
  return SearchIndex.build(parsed.flatMap(({ paragraphs }) => paragraphs));
}

/** Sluice's own pages start with their title, which has no markup. */
function firstHeading({ markdown, name }: Page): string {
  return /^# (.+)$/m.exec(markdown)?.[1] ?? name;
}

/** Other work runs after each page. Rejects with `UnreadableDocs`. */
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
    const reason = messageOf(error);
    throw new UnreadableDocs(`the Markdown of ${page.url} cannot be parsed: ${reason}`);
  }
}
