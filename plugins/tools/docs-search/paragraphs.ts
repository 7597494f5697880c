/** Splits Markdown into paragraphs of plain text, each with the title and the anchor of its section. */
import GithubSlugger from "github-slugger";
import { Lexer, type MarkedToken, type Token, type Tokens } from "marked";

export interface Paragraph {
  /** `Page`, or `Page: Section`. */
  readonly title: string;
  readonly url: string;
  /**
   * Plain text. Table rows, list items and lines of code each have their own line. At most `maxTextLength` characters,
   * plus the head row of a table.
   */
  readonly text: string;
}

export interface Page {
  readonly url: string;
  /** Name of the file; the title of a page without headings. */
  readonly name: string;
  readonly markdown: string;
}

/** Longer paragraphs would contain text that is not related to the query. */
const maxJoinedLength = 500;
const maxTextLength = 1_000;

export interface PageParagraphs {
  /** The text of the first heading of the highest level, or the name of the file. */
  readonly title: string;
  readonly paragraphs: readonly Paragraph[];
}

/** Throws what the parser throws, for example when the nesting exceeds its stack. */
export function paragraphsOf(page: Page): PageParagraphs {
  // Without extensions the lexer produces only these tokens.
  const tokens = new Lexer({ gfm: true }).lex(withoutFrontMatter(page.markdown)) as MarkedToken[];
  const title = titleOf(tokens) ?? page.name;
  const slugger = new GithubSlugger();
  const paragraphs: Paragraph[] = [];
  let section = { title, url: page.url };
  let leadIn: string | undefined;
  const add = (lines: readonly string[], repeated?: string): void => {
    for (const text of joinLines(lines, repeated)) paragraphs.push({ ...section, text });
  };
  for (const token of tokens) {
    if (token.type === "space" || token.type === "hr" || token.type === "def") continue;
    if (token.type === "heading") {
      if (leadIn !== undefined) add([leadIn]);
      leadIn = undefined;
      const heading = textOf(token.tokens);
      const anchor = encodeURIComponent(slugger.slug(heading));
      section = {
        title: heading === title || heading === "" ? title : `${title}: ${heading}`,
        url: `${page.url}#${anchor}`,
      };
      continue;
    }
    const lines = linesOf(token);
    const whole = leadIn === undefined ? lines : [leadIn, ...lines];
    // A line such as "For example:" is useless without the text that follows it.
    leadIn = token.type === "paragraph" && lines[0]?.endsWith(":") ? whole.join("\n") : undefined;
    if (leadIn === undefined) add(whole, token.type === "table" ? headOf(lines) : undefined);
  }
  if (leadIn !== undefined) add([leadIn]);
  return { title, paragraphs };
}

/** Removes front matter: YAML between lines of `---`, or TOML between lines of `+++`, at the start of the file. */
function withoutFrontMatter(markdown: string): string {
  return markdown.replace(/^(---|\+\+\+)[ \t]*\r?\n(?:[^]*?\r?\n)?\1[ \t]*(?:\r?\n|$)/, "");
}

function titleOf(tokens: readonly MarkedToken[]): string | undefined {
  const headings = tokens.filter((token) => token.type === "heading");
  const highest = Math.min(...headings.map(({ depth }) => depth));
  const first = headings.find(({ depth }) => depth === highest);
  const text = first === undefined ? "" : textOf(first.tokens);
  return text === "" ? undefined : text;
}

function linesOf(token: MarkedToken): string[] {
  if (token.type === "code") return token.text.split("\n");
  if (token.type === "list") return token.items.flatMap((item) => blocks(item.tokens));
  if (token.type === "blockquote") return blocks(token.tokens);
  if (token.type === "table") return [token.header, ...token.rows].map(rowOf);
  if (token.type === "html") return [decode(withoutTags(token.text))];
  if ("tokens" in token && token.tokens !== undefined) return [textOf(token.tokens)];
  return token.type === "text" ? [decode(token.text)] : [];
}

/** Each part of a long table repeats the head row, unless the head row alone is as long as a paragraph. */
function headOf([head = ""]: readonly string[]): string | undefined {
  return head.length <= maxJoinedLength ? head : undefined;
}

function blocks(tokens: readonly Token[]): string[] {
  // See `paragraphsOf`.
  return tokens.flatMap((token) => linesOf(token as MarkedToken));
}

function rowOf(cells: readonly Tokens.TableCell[]): string {
  return cells
    .map(({ tokens }) => textOf(tokens))
    .filter((cell) => cell !== "")
    .join("; ");
}

function textOf(tokens: readonly Token[]): string {
  return tokens.map(inlineText).join("").replace(/\s+/g, " ").trim();
}

function inlineText(token: Token): string {
  // See `paragraphsOf`: no extension adds token types.
  const inline = token as MarkedToken;
  if (inline.type === "codespan") return inline.text;
  if (inline.type === "br") return " ";
  if (inline.type === "html" || inline.type === "checkbox") return "";
  if ("tokens" in inline && inline.tokens !== undefined) {
    return inline.tokens.map(inlineText).join("");
  }
  return "text" in inline ? decode(inline.text) : "";
}

/** Removes tags and comments from HTML in one pass. A tag that is never closed ends the text. */
function withoutTags(html: string): string {
  let text = "";
  let at = 0;
  for (;;) {
    const open = html.indexOf("<", at);
    if (open === -1) return text + html.slice(at);
    text += `${html.slice(at, open)} `;
    const end = html.startsWith("<!--", open) ? "-->" : ">";
    const close = html.indexOf(end, open);
    if (close === -1) return text;
    at = close + end.length;
  }
}

const named: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
};

/** Decodes the character references that prose uses and keeps all others. */
function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]+));/gi, (whole, dec, hex, name) => {
    if (typeof name === "string") return named[name.toLowerCase()] ?? whole;
    const code = typeof dec === "string" ? Number(dec) : Number.parseInt(String(hex), 16);
    return code > 0 && code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
  });
}

/** Omits texts without a letter or digit. `repeated`: first line of every text but the first. */
function joinLines(lines: readonly string[], repeated?: string): string[] {
  const texts: string[] = [];
  let text = "";
  for (const line of lines.flatMap(split)) {
    if (text !== "" && text.length + 1 + line.length > maxJoinedLength) {
      texts.push(text);
      text = repeated === undefined ? line : `${repeated}\n${line}`;
    } else text = text === "" ? line : `${text}\n${line}`;
  }
  texts.push(text);
  return texts.filter((each) => /[\p{L}\p{N}]/u.test(each)).map((each) => each.trim());
}

function split(line: string): string[] {
  const parts: string[] = [];
  let rest = line;
  while (rest.length > maxTextLength) {
    const space = rest.lastIndexOf(" ", maxTextLength);
    const end = space > maxTextLength / 2 ? space : maxTextLength;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return [...parts, rest];
}
