/**
 * Time of one docs_search query over 10,000 paragraphs: each query timed by itself, and the processor's time over all
 * of them, garbage collection included, which a busy machine distorts least. The text is made up: 30,000 words whose
 * frequencies follow Zipf's law, as those of real texts do, 12 to 90 words a paragraph, always the same for the same
 * seed.
 *
 *   node bench/micro/docs-search.ts
 */
import type { Paragraph } from "../../plugins/docs-search/paragraphs.ts";
import { buildIndex, search } from "../../plugins/docs-search/search-index.ts";

const paragraphCount = 10_000;
const vocabulary = 30_000;
const queriesPerTask = 500;

/** Mulberry32: uniform in [0, 1), from a 32-bit seed. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const random = createRandom(1);

/** Rank 1 is the commonest: inverse transform of the density 1/rank. */
function word(): string {
  return spelled(Math.floor(vocabulary ** random()));
}

/** A word of letters for each rank. */
function spelled(rank: number): string {
  const letters = Array.from(rank.toString(26), (digit) => {
    return String.fromCharCode(97 + Number.parseInt(digit, 26));
  });
  return `q${letters.join("")}`;
}

function words(count: number): string {
  return Array.from({ length: count }, word).join(" ");
}

function paragraph(_: unknown, id: number): Paragraph {
  const section = Math.floor(id / 8);
  return {
    title: `Page ${section}: ${words(3)}`,
    url: `docs://bench/${section}.md`,
    text: words(12 + Math.floor(random() * 79)),
  };
}

const started = performance.now();
const paragraphs = Array.from({ length: paragraphCount }, paragraph);
const made = performance.now();
const index = buildIndex(paragraphs);
const indexed = performance.now();
console.log(
  `${paragraphCount} paragraphs, ${index.postings.toJSON().terms.length} terms; made in ${(made - started).toFixed(0)} ms, indexed in ${(indexed - made).toFixed(0)} ms`,
);

const lengths = [1, 3, 8, 25].map((length) => ({
  name: length === 1 ? "1 word" : `${length} words`,
  queries: Array.from({ length: queriesPerTask }, () => words(length)),
}));
const tasks = [
  ...lengths,
  { name: "the commonest word", queries: [spelled(1)] },
  { name: "six common words", queries: [[1, 2, 3, 4, 5, 6].map(spelled).join(" ")] },
  { name: "beginnings of words", queries: ["qbb", "qcd", "qfg"].map((start) => `${start}z`) },
];
console.table(tasks.map(({ name, queries }) => ({ query: name, ...measured(queries) })));

/** Milliseconds. */
function measured(queries: readonly string[]): Record<string, string> {
  for (const query of queries) search(index, query, 25);
  const times: number[] = [];
  const before = process.cpuUsage();
  for (let round = 0; times.length < 2_000; round++) {
    const query = queries[round % queries.length] ?? "";
    const start = performance.now();
    search(index, query, 25);
    times.push(performance.now() - start);
  }
  const { user, system } = process.cpuUsage(before);
  times.sort((a, b) => a - b);
  const quantile = (part: number): string =>
    (times[Math.floor(part * times.length)] ?? NaN).toFixed(3);
  return {
    p50: quantile(0.5),
    p99: quantile(0.99),
    "cpu, mean": ((user + system) / 1_000 / times.length).toFixed(3),
  };
}
