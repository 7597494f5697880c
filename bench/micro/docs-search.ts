/**
 * Measures one docs_search query over 1,000 paragraphs (about as many as the shipped documentation has) and over 10,000
 * (the limit of the plugin): the time of each query, and the CPU time of all queries including garbage collection,
 * which a busy machine distorts least. The text is generated: 30,000 words whose frequencies follow Zipf's law, as in
 * real texts, and 12 to 90 words per paragraph.
 *
 *   node bench/micro/docs-search.ts
 */
import type { Paragraph } from "../../plugins/tools/docs-search/paragraphs.ts";
import { SearchIndex } from "../../plugins/tools/docs-search/search-index.ts";
import { quantile } from "../load/table.ts";
import { createRandom } from "../soak/random.ts";

const vocabulary = 30_000;
const queriesPerTask = 500;

const random = createRandom(1);

/** Rank 1 is the commonest word. Inverse transform sampling of the density 1/rank. */
function word(): string {
  return spelled(Math.floor(vocabulary ** random.share()));
}

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
    text: words(12 + random.int(79)),
  };
}

for (const paragraphCount of [1_000, 10_000]) {
  const paragraphs = Array.from({ length: paragraphCount }, paragraph);
  const started = performance.now();
  const index = await SearchIndex.build(paragraphs);
  const indexed = performance.now();
  console.log(`${paragraphCount} paragraphs, indexed in ${(indexed - started).toFixed(0)} ms`);
  const lengths = [1, 3, 8, 25].map((length) => ({
    name: length === 1 ? "1 word" : `${length} words`,
    queries: Array.from({ length: queriesPerTask }, () => words(length)),
  }));
  const tasks = [
    ...lengths,
    { name: "most common word", queries: [spelled(1)] },
    { name: "six common words", queries: [[1, 2, 3, 4, 5, 6].map(spelled).join(" ")] },
    { name: "prefixes", queries: ["qbb", "qcd", "qfg"].map((start) => `${start}z`) },
  ];
  console.table(tasks.map(({ name, queries }) => ({ query: name, ...measure(index, queries) })));
}

function measure(index: SearchIndex, queries: readonly string[]): Record<string, string> {
  for (const query of queries) index.search(query, 25);
  const times: number[] = [];
  const before = process.cpuUsage();
  for (let round = 0; times.length < 2_000; round++) {
    const query = queries[round % queries.length] ?? "";
    const start = performance.now();
    index.search(query, 25);
    times.push(performance.now() - start);
  }
  const { user, system } = process.cpuUsage(before);
  return {
    p50: quantile(times, 0.5).toFixed(3),
    p99: quantile(times, 0.99).toFixed(3),
    "cpu, mean": ((user + system) / 1_000 / times.length).toFixed(3),
  };
}
