/** The index: paragraphs ranked by BM25 (MiniSearch's BM25+). */
import MiniSearch, { type Options } from "minisearch";
import type { Paragraph } from "./paragraphs.ts";
import { listPostings, Postings, type Ranked } from "./postings.ts";
import { termsOf } from "./terms.ts";

export interface SearchIndex {
  readonly paragraphs: readonly Paragraph[];
  readonly postings: Postings;
  /** For words that stand nowhere: finds those that they are the beginning of. */
  readonly engine: MiniSearch<Entry>;
}

export interface Hit {
  readonly title: string;
  readonly url: string;
  readonly text: string;
  /** BM25 relevance, above 0, three decimals; comparable within one answer only. */
  readonly score: number;
}

interface Entry {
  /** Position in `paragraphs`. */
  readonly id: number;
  readonly title: string;
  readonly text: string;
}

/** How MiniSearch reads paragraphs; an index in a file was made with the same. */
export const engineOptions: Options<Entry> = {
  fields: ["title", "text"],
  tokenize: termsOf,
  processTerm: (term) => term,
  searchOptions: { boost: { title: 2 } },
};

/** Of a longer query only the beginning counts. */
const longestQuery = 1_000;
/** A word that stands nowhere counts as the beginning of others from this length on. */
const shortestPrefix = 4;
const mostPrefixes = 4;

/** What questions are made of. In a small index these words are rare, and would weigh as if they told something. */
const questionWords = new Set(
  termsOf(
    "a an and are as at be by can do does for from how i if in is it my of on or that the this to what when where which who why will with you",
  ),
);

export function buildIndex(paragraphs: readonly Paragraph[]): SearchIndex {
  const engine = new MiniSearch(engineOptions);
  const terms = new Set<string>();
  for (const [id, { title, text }] of paragraphs.entries()) {
    engine.add({ id, title, text });
    for (const term of termsOf(`${title}\n${text}`)) terms.add(term);
  }
  const lists = listPostings(terms, (term) => find(engine, [term], false));
  return { paragraphs, postings: new Postings(lists, paragraphs.length), engine };
}

/** The best `limit` (at most 25) paragraphs; equal scores in the order of the documents. */
export function search(index: SearchIndex, query: string, limit: number): Hit[] {
  const words = [...new Set(termsOf(query.slice(0, longestQuery)))];
  const telling = words.filter((word) => !questionWords.has(word));
  const asked = telling.length > 0 ? telling : words;
  const known = index.postings.rank(asked, limit);
  const best = known.length > 0 ? known : beginningWith(index, asked, limit);
  return best.map(({ id, score }) => {
    const { title, url, text } = paragraphAt(index, id);
    return { title, url, text, score: Math.max(0.001, Math.round(score * 1_000) / 1_000) };
  });
}

function beginningWith({ engine }: SearchIndex, words: readonly string[], limit: number): Ranked[] {
  const starts = words.filter(({ length }) => length >= shortestPrefix).slice(0, mostPrefixes);
  return find(engine, starts, true)
    .toSorted((a, b) => b.score - a.score || a.id - b.id)
    .slice(0, limit);
}

function find(engine: MiniSearch<Entry>, terms: readonly string[], prefix: boolean): Ranked[] {
  return engine
    .search(terms.join(" "), { tokenize: () => [...terms], prefix })
    .map(({ id, score }) => ({ id: Number(id), score }));
}

function paragraphAt({ paragraphs }: SearchIndex, id: number): Paragraph {
  const paragraph = paragraphs[id];
  if (paragraph === undefined) throw new Error(`the index names paragraph ${id}, which it lacks`);
  return paragraph;
}
