import MiniSearch, { type Options, type SearchResult } from "minisearch";
import type { Paragraph } from "./paragraphs.ts";
import { termsOf } from "./terms.ts";

export interface Hit {
  readonly title: string;
  readonly url: string;
  readonly text: string;
  /** BM25 relevance, above 0, rounded to three decimals. Scores are comparable within one answer only. */
  readonly score: number;
}

/** Number of paragraphs that are indexed without a pause, which takes a few milliseconds. */
const chunkSize = 20;
/** The rest of the query is ignored. */
const maxQueryLength = 1_000;
/** Together with `maxParagraphs` this bounds the cost of one query. */
const maxQueryTerms = 32;
/** An unknown word of at least this length is treated as a prefix. */
const minPrefixLength = 4;
const maxPrefixes = 4;

/** Words that are common in questions. In a small index they are rare, so BM25 would give them too much weight. */
const stopWords = new Set(
  termsOf(
    "a an and are as at be by can do does for from how i if in is it my of on or that the this to what when where which who why will with you",
  ),
);

const engineOptions: Options = {
  fields: ["title", "text"],
  tokenize: termsOf,
  processTerm: (term) => term,
  searchOptions: { boost: { title: 2 } },
};

export class SearchIndex {
  readonly #paragraphs: Paragraph[];
  readonly #engine: MiniSearch;

  private constructor(paragraphs: Paragraph[], engine: MiniSearch) {
    this.#paragraphs = paragraphs;
    this.#engine = engine;
  }

  /** Other work runs in between. */
  static async build(paragraphs: readonly Paragraph[]): Promise<SearchIndex> {
    const index = new SearchIndex([], new MiniSearch(engineOptions));
    await index.add(paragraphs);
    return index;
  }

  /** Loads what `toJson` has returned, which is much faster than building it. Other work runs in between. */
  static async load(json: string): Promise<SearchIndex> {
    // Only `toJson` writes this text.
    const { paragraphs, engine } = JSON.parse(json) as { paragraphs: Paragraph[]; engine: string };
    return new SearchIndex(paragraphs, await MiniSearch.loadJSONAsync(engine, engineOptions));
  }

  toJson(): string {
    return JSON.stringify({
      paragraphs: this.#paragraphs,
      engine: JSON.stringify(this.#engine),
    });
  }

  async add(paragraphs: readonly Paragraph[]): Promise<void> {
    const first = this.#paragraphs.length;
    const documents = paragraphs.map(({ title, text }, i) => ({ id: first + i, title, text }));
    this.#paragraphs.push(...paragraphs);
    await this.#engine.addAllAsync(documents, { chunkSize });
  }

  /** Equal scores keep the order of the documents. */
  search(query: string, limit: number): Hit[] {
    const words = [...new Set(termsOf(query.slice(0, maxQueryLength)))];
    const specific = words.filter((word) => !stopWords.has(word));
    const terms = (specific.length > 0 ? specific : words).slice(0, maxQueryTerms);
    const exact = this.#find(terms, false);
    const results = exact.length > 0 ? exact : this.#find(prefixesOf(terms), true);
    return results.slice(0, limit).map((result) => this.#hit(result));
  }

  #find(terms: string[], prefix: boolean): SearchResult[] {
    return this.#engine
      .search(terms.join(" "), { tokenize: () => terms, prefix })
      .toSorted((a, b) => b.score - a.score || Number(a.id) - Number(b.id));
  }

  #hit({ id, score }: SearchResult): Hit {
    const paragraph = this.#paragraphs[Number(id)];
    if (paragraph === undefined) throw new Error(`the index has no paragraph ${String(id)}`);
    return { ...paragraph, score: Math.max(0.001, Math.round(score * 1_000) / 1_000) };
  }
}

function prefixesOf(terms: readonly string[]): string[] {
  return terms.filter(({ length }) => length >= minPrefixLength).slice(0, maxPrefixes);
}
