/** The library: every page for reading, and the search index over the paragraphs of all pages. */
import { readPages, UnreadableDocs, type Sources } from "./folders.ts";
import { paragraphsOf, type Page, type PageParagraphs, type Paragraph } from "./paragraphs.ts";
import { SearchIndex } from "./search-index.ts";

export interface Library {
  readonly pages: readonly LibraryPage[];
  readonly index: SearchIndex;
}

export interface LibraryPage {
  readonly url: string;
  readonly title: string;
  readonly markdown: string;
}

/** MiniSearch takes about 1 µs per posting that it reads (bench/README.md), so this bounds the cost of a query. */
const maxParagraphs = 10_000;

/** Reads and indexes the Markdown files. `base` is the folder of pipeline.yaml. Throws `UnreadableDocs`. */
export async function readLibrary(sources: Sources, base: string): Promise<Library> {
  const pages: LibraryPage[] = [];
  const all: Paragraph[] = [];
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

function parse(page: Page): PageParagraphs {
  try {
    return paragraphsOf(page);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UnreadableDocs(`the Markdown of ${page.url} cannot be parsed: ${reason}`);
  }
}
