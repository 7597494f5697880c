/** The index: paragraphs ranked by BM25 (MiniSearch's BM25+), within a bounded number of postings per query. */
import MiniSearch, { type Options, type SearchResult } from "minisearch";
import type { Paragraph } from "./paragraphs.ts";
import { termsOf } from "./terms.ts";

export interface SearchIndex {
  readonly paragraphs: readonly Paragraph[];
  /** In how many paragraphs a term stands. */
  readonly frequency: ReadonlyMap<string, number>;
  readonly engine: MiniSearch<Entry>;
  /** The best for words that stand almost everywhere, once they have been asked for. */
  readonly common: Map<string, readonly Ranked[]>;
}

interface Ranked {
  readonly id: number;
  readonly score: number;
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

/**
 * Postings that one query may read: what ranks 10,000 paragraphs within a millisecond (bench/README.md). The rarest
 * terms, which tell most, come first; "the" is left out where there is anything better.
 */
const mostPostings = 600;
/** Of a longer query only the beginning counts. */
const longestQuery = 1_000;
/** The most that is asked for at once. */
const mostHits = 25;
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
  const frequency = new Map<string, number>();
  for (const [id, { title, text }] of paragraphs.entries()) {
    engine.add({ id, title, text });
    for (const term of new Set(termsOf(`${title}\n${text}`))) {
      frequency.set(term, (frequency.get(term) ?? 0) + 1);
    }
  }
  return { paragraphs, frequency, engine, common: new Map() };
}

/** The best `limit` (at most 25) paragraphs; equal scores in the order of the documents. */
export function search(index: SearchIndex, query: string, limit: number): Hit[] {
  const words = [...new Set(termsOf(query.slice(0, longestQuery)))];
  const telling = words.filter((word) => !questionWords.has(word));
  const asked = telling.length > 0 ? telling : words;
  return ranked(index, asked, limit).map(({ id, score }) => {
    const { title, url, text } = paragraphAt(index, id);
    return { title, url, text, score: Math.max(0.001, Math.round(score * 1_000) / 1_000) };
  });
}

function ranked(index: SearchIndex, asked: readonly string[], limit: number): readonly Ranked[] {
  const terms = affordable(asked, index.frequency);
  const [first] = terms;
  if (first === undefined) {
    const starts = asked.filter(({ length }) => length >= shortestPrefix).slice(0, mostPrefixes);
    return best(find(index, starts, true), limit);
  }
  const isCommon = (index.frequency.get(first) ?? 0) > mostPostings;
  if (!isCommon) return best(find(index, terms, false), limit);
  // Nothing but words that stand everywhere: ranking most of the index is worth keeping.
  const kept = index.common.get(first) ?? best(find(index, [first], false), mostHits);
  index.common.set(first, kept);
  return kept.slice(0, limit);
}

function find({ engine }: SearchIndex, terms: readonly string[], prefix: boolean): SearchResult[] {
  return engine.search(terms.join(" "), { tokenize: () => [...terms], prefix });
}

/** The known terms, rarest first, as far as the postings go; one at least. */
function affordable(asked: readonly string[], frequency: SearchIndex["frequency"]): string[] {
  const known = asked.flatMap((term) => {
    const count = frequency.get(term);
    return count === undefined ? [] : [{ term, count }];
  });
  let left = mostPostings;
  return known
    .toSorted((a, b) => a.count - b.count)
    .filter(({ count }, position) => {
      left -= count;
      return position === 0 || left >= 0;
    })
    .map(({ term }) => term);
}

/** MiniSearch sorts by score alone: everything that ties with the last one is put in order before it is cut. */
function best(found: readonly SearchResult[], limit: number): Ranked[] {
  const lowest = found[Math.min(limit, found.length) - 1]?.score ?? 0;
  let end = Math.min(limit, found.length);
  while (end < found.length && found[end]?.score === lowest) end++;
  return found
    .slice(0, end)
    .map(({ id, score }) => ({ id: Number(id), score }))
    .toSorted((a, b) => b.score - a.score || a.id - b.id)
    .slice(0, limit);
}

function paragraphAt({ paragraphs }: SearchIndex, id: number): Paragraph {
  const paragraph = paragraphs[id];
  if (paragraph === undefined) throw new Error(`the index names paragraph ${id}, which it lacks`);
  return paragraph;
}
