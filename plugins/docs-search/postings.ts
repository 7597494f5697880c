/**
 * For every term the paragraphs that it stands in, and what it adds to the score of each: what MiniSearch would work
 * out at every query, worked out once. A query then adds numbers up, at some nanoseconds a posting where MiniSearch
 * takes a microsecond (bench/README.md), and needs to leave none out.
 */

export interface Ranked {
  /** Of the paragraph. */
  readonly id: number;
  readonly score: number;
}

/** As a file holds them. */
export interface PostingLists {
  /** Each term with how many postings are its own: they follow each other in this order. */
  readonly terms: readonly (readonly [term: string, count: number])[];
  readonly ids: readonly number[];
  /** In ten-thousandths: whole numbers add up to the same in any order. */
  readonly scores: readonly number[];
}

/** Where the postings of a term stand. */
interface Span {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

/** Of a query with more terms the rarest count: what one query reads has a bound. */
const mostTerms = 32;
const scoreUnits = 10_000;

/** `find`: the paragraphs that a term stands in, with its score for each. */
export function listPostings(
  terms: Iterable<string>,
  find: (term: string) => readonly Ranked[],
): PostingLists {
  const counted: [string, number][] = [];
  const ids: number[] = [];
  const scores: number[] = [];
  for (const term of terms) {
    const found = find(term);
    counted.push([term, found.length]);
    for (const { id, score } of found) {
      ids.push(id);
      scores.push(Math.max(1, Math.round(score * scoreUnits)));
    }
  }
  return { terms: counted, ids, scores };
}

export class Postings {
  readonly #spans = new Map<string, Span>();
  readonly #ids: Uint32Array;
  readonly #scores: Uint32Array;
  // Of one query, by paragraph; between two queries all are 0.
  readonly #sums: Float64Array;
  readonly #terms: Uint8Array;
  /** The paragraphs that the query has found so far. */
  readonly #found: Uint32Array;

  /** Throws RangeError where the lists do not fit each other, or so many paragraphs. */
  constructor({ terms, ids, scores }: PostingLists, paragraphs: number) {
    let from = 0;
    for (const [term, count] of terms) {
      const to = from + count;
      this.#spans.set(term, { from, to });
      from = to;
    }
    const isWhole = from === ids.length && from === scores.length;
    if (!isWhole || !ids.every((id) => id < paragraphs)) {
      throw new RangeError("the postings do not fit");
    }
    this.#ids = Uint32Array.from(ids);
    this.#scores = Uint32Array.from(scores);
    this.#sums = new Float64Array(paragraphs);
    this.#terms = new Uint8Array(paragraphs);
    this.#found = new Uint32Array(paragraphs);
  }

  toJSON(): PostingLists {
    const terms = Array.from(this.#spans, ([term, { from, to }]) => [term, to - from] as const);
    return { terms, ids: Array.from(this.#ids), scores: Array.from(this.#scores) };
  }

  /**
   * The best paragraphs for any of the terms, each of which is named once. As MiniSearch has it: the terms' scores are
   * added up, and the sum is multiplied by how many terms there are. Equal scores come in the order of the paragraphs.
   */
  rank(terms: readonly string[], limit: number): Ranked[] {
    const found = this.#found.subarray(0, this.#addUp(this.#rarest(terms)));
    const sums = this.#sums;
    const counts = this.#terms;
    const best: Ranked[] = [];
    for (const id of found) {
      const score = ((sums[id] ?? 0) * (counts[id] ?? 0)) / scoreUnits;
      sums[id] = counts[id] = 0;
      const last = best[limit - 1];
      if (last === undefined || isBetter(id, score, last)) insert(best, { id, score }, limit);
    }
    return best;
  }

  #rarest(terms: readonly string[]): readonly Span[] {
    const spans = terms.flatMap((term) => this.#spans.get(term) ?? []);
    if (spans.length <= mostTerms) return spans;
    return spans.toSorted((a, b) => a.to - a.from - (b.to - b.from)).slice(0, mostTerms);
  }

  /** How many paragraphs have been found. */
  #addUp(spans: readonly Span[]): number {
    const ids = this.#ids;
    const scores = this.#scores;
    const sums = this.#sums;
    const terms = this.#terms;
    const found = this.#found;
    let count = 0;
    for (const { from, to } of spans) {
      for (let at = from; at < to; at++) {
        const id = ids[at] ?? 0;
        const known = terms[id] ?? 0;
        if (known === 0) found[count++] = id;
        terms[id] = known + 1;
        sums[id] = (sums[id] ?? 0) + (scores[at] ?? 0);
      }
    }
    return count;
  }
}

function insert(best: Ranked[], one: Ranked, limit: number): void {
  const worse = best.findIndex((other) => isBetter(one.id, one.score, other));
  best.splice(worse === -1 ? best.length : worse, 0, one);
  if (best.length > limit) best.pop();
}

function isBetter(id: number, score: number, other: Ranked): boolean {
  return score > other.score || (score === other.score && id < other.id);
}
