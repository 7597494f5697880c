/** The library: every page for reading, and the search in the paragraphs of all pages. */
import { readPages, UnreadableDocs, type Sources } from "./folders.ts";
import type { Library } from "./library-types.ts";
import { openOwnLibrary } from "./own-library.ts";
import type { Page, PageParagraphs, Paragraph } from "./paragraphs.ts";
import { SearchIndex } from "./search-index.ts";

interface IndexedPage {
  readonly url: string;
  readonly title: string;
  readonly markdown: string;
}

/** MiniSearch takes about 1 µs per posting that it reads (bench/README.md), so this bounds the cost of a query. */
const maxParagraphs = 10_000;

/** Opens the library of the Markdown files. `base` is the folder of pipeline.yaml. Throws `UnreadableDocs`. */
export async function openLibrary(sources: Sources, base: string): Promise<Library> {
  const isOnlyShipped = sources.own && sources.folders.length === 0;
  const own = isOnlyShipped ? openOwnLibrary() : undefined;
  if (own !== undefined) return own;
  const { pages, index } = await indexPages(sources, base);
  return {
    pages: pages.map(({ url, title, markdown }) => ({
      url,
      title,
      bytes: Buffer.byteLength(markdown),
      read: () => markdown,
    })),
    size: index.size,
    search: (query, limit) => index.search(query, limit),
  };
}

/** Reads and indexes the Markdown files. Throws `UnreadableDocs`. */
export async function indexPages(
  sources: Sources,
  base: string,
): Promise<{ readonly pages: readonly IndexedPage[]; readonly index: SearchIndex }> {
  const pages: IndexedPage[] = [];
  const all: Paragraph[] = [];
  // The Markdown parser is loaded only where it is needed.
  const { paragraphsOf } = await import("./paragraphs.ts");
  const parse = (page: Page): PageParagraphs => {
    try {
      return paragraphsOf(page);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new UnreadableDocs(`the Markdown of ${page.url} cannot be parsed: ${reason}`);
    }
  };
  for (const page of await readPages(sources, base)) {
    const { title, paragraphs } = parse(page);
    pages.push({ url: page.url, title, markdown: page.markdown });
    for (const paragraph of paragraphs) all.push(paragraph);
    if (all.length > maxParagraphs) {
      throw new UnreadableDocs(
        `found more than ${maxParagraphs} paragraphs; the last page was ${page.url}`,
      );
    }
  }
  return { pages, index: new SearchIndex(all) };
}
