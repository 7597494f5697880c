/**
 * Draws the plots of bench/README.md and docs/replicas.md from the tables of bench/load/notes.md and docs/replicas.md:
 * `npm run bench -- --plot`. Each plot is an SVG that adapts to light and dark pages.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Panel {
  readonly title: string;
  readonly column: string;
}

interface Plot {
  readonly file: string;
  readonly page: string;
  /** Path of the page that shows the plot. Default: `page`. */
  readonly shownOn?: string;
  /** Heading of the section whose first table is drawn. */
  readonly section: string;
  readonly panels: readonly Panel[];
}

const plots: readonly Plot[] = [
  {
    file: "bench/plots/node-proxy.svg",
    page: "bench/load/notes.md",
    shownOn: "bench/README.md",
    section: "The node proxy",
    panels: [
      { title: "CPU per request with 32 connections, µs", column: "CPU µs, 32 connections" },
      { title: "CPU per request with 256 connections, µs", column: "CPU µs, 256 connections" },
    ],
  },
  {
    file: "bench/plots/mcp.svg",
    page: "bench/load/notes.md",
    shownOn: "bench/README.md",
    section: "Model Context Protocol",
    panels: [
      { title: "CPU per call with 32 connections, µs", column: "CPU µs, 32 connections" },
      { title: "CPU per call with 256 connections, µs", column: "CPU µs, 256 connections" },
    ],
  },
  {
    file: "bench/plots/chat.svg",
    page: "bench/load/notes.md",
    shownOn: "bench/README.md",
    section: "Chat completions",
    panels: [
      { title: "CPU per token with 64 streams, µs", column: "CPU µs/token, streams: 64" },
      { title: "CPU per token with 512 streams, µs", column: "CPU µs/token, streams: 512" },
    ],
  },
  {
    file: "docs/images/replicas-cpu.svg",
    page: "docs/replicas.md",
    section: "What sharing costs",
    panels: [
      { title: "CPU per request of all gateways, µs", column: "gateways, µs" },
      { title: "CPU per request of PostgreSQL, µs", column: "PostgreSQL, µs" },
    ],
  },
];

const root = join(import.meta.dirname, "..");

interface Bar {
  readonly label: string;
  readonly value: number;
}

export function writePlots(): void {
  for (const [file, { svg }] of drawPlots(readPage)) writeFileSync(join(root, file), svg);
}

export function readPage(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** Returns plots by their file, and the page that shows each. `read` returns the text of a page. */
export function drawPlots(
  read: (page: string) => string,
): ReadonlyMap<string, { readonly svg: string; readonly page: string }> {
  return new Map(
    plots.map(({ file, page, shownOn = page, section, panels }) => {
      const rows = firstTable(read(page), section);
      const drawn = panels.map(({ title, column }) => ({ title, bars: barsOf(rows, column) }));
      return [file, { svg: drawSvg(section, drawn), page: shownOn }];
    }),
  );
}

/** Returns the cells of the first table after a heading, its head first. Throws if the page has no such table. */
function firstTable(page: string, section: string): string[][] {
  const lines = page.split("\n");
  const heading = lines.indexOf(`## ${section}`);
  const start = lines.findIndex((line, index) => index > heading && line.startsWith("|"));
  if (heading === -1 || start === -1) throw new Error(`the page has no table "${section}"`);
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return lines.slice(start, end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

function barsOf([head = [], , ...rows]: readonly string[][], column: string): Bar[] {
  const position = head.indexOf(column);
  if (position === -1) throw new Error(`the table has no column "${column}"`);
  return rows.flatMap((cells) => {
    // A ratio may follow in brackets. A cell with failed answers is empty.
    const text = cells[position]?.replaceAll(",", "").split(" ")[0] ?? "";
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Error(`"${cells[position]}" is not a number`);
    return text === "" ? [] : [{ label: cells[0] ?? "", value }];
  });
}

const width = 720;
const labelWidth = 240;
const valueWidth = 70;
const barHeight = 18;
const rowHeight = 26;
const titleHeight = 34;

function drawSvg(name: string, panels: readonly { title: string; bars: readonly Bar[] }[]): string {
  let top = 0;
  const parts: string[] = [];
  for (const { title, bars } of panels) {
    parts.push(`<text class="title" x="0" y="${top + 22}">${escape(title)}</text>`);
    top += titleHeight;
    const max = Math.max(...bars.map(({ value }) => value));
    for (const { label, value } of bars) {
      parts.push(...drawBar(label, value, max, top));
      top += rowHeight;
    }
    top += 10;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}" viewBox="0 0 ${width} ${top}" role="img">
<title>${escape(name)}</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; }
.peer { fill: #8c959f; }
.sluice { fill: #0969da; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.peer { fill: #6e7681; }
.sluice { fill: #4493f8; }
}
</style>
${parts.join("\n")}
</svg>
`;
}

function drawBar(label: string, value: number, max: number, top: number): string[] {
  const length = Math.max(1, Math.round((value / max) * (width - labelWidth - valueWidth)));
  const kind = label.startsWith("sluice") ? "sluice" : "peer";
  const middle = top + 13;
  return [
    `<text x="${labelWidth - 8}" y="${middle}" text-anchor="end">${escape(label)}</text>`,
    `<rect class="${kind}" x="${labelWidth}" y="${top}" width="${length}" height="${barHeight}" rx="2"/>`,
    `<text x="${labelWidth + length + 6}" y="${middle}">${value.toLocaleString("en-US")}</text>`,
  ];
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
