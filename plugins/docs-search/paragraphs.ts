/** Markdown as paragraphs of plain text, each with the title of its section and the anchor of its heading. */
import GithubSlugger from "github-slugger";
import { Lexer, type MarkedToken, type Token, type Tokens } from "marked";

export interface Paragraph {
  /** `Page`, or `Page: Section`. */
  readonly title: string;
  /** The page's url, with the anchor of the heading above. */
  readonly url: string;
  /**
   * Without markup; rows, items and lines of code on lines of their own. At most `longestText` characters, and the head
   * of its table.
   */
  readonly text: string;
}

/** A page as it was read. */
export interface Page {
  readonly url: string;
  /** The file's name, for pages without a heading. */
  readonly name: string;
  readonly markdown: string;
}

/** Items and rows are gathered up to this length, so that what is found is what was asked for. */
const gathered = 500;
/** Longer lines are cut. */
const longestText = 1_000;

export interface PageParagraphs {
  /** The first heading of the highest level, else the file's name. */
  readonly title: string;
  readonly paragraphs: readonly Paragraph[];
}

/** Throws what the parser throws: a text nested beyond its stack. */
export function paragraphsOf(page: Page): PageParagraphs {
  // Without extensions the lexer makes no other tokens than these.
  const tokens = new Lexer({ gfm: true }).lex(withoutFrontMatter(page.markdown)) as MarkedToken[];
  const title = titleOf(tokens) ?? page.name;
  const slugger = new GithubSlugger();
  const paragraphs: Paragraph[] = [];
  let section = { title, url: page.url };
  let leadIn: string | undefined;
  const add = (lines: readonly string[], repeated?: string): void => {
    for (const text of pieces(lines, repeated)) paragraphs.push({ ...section, text });
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
    // "For example:" says nothing without what follows it.
    leadIn = token.type === "paragraph" && lines[0]?.endsWith(":") ? whole.join("\n") : undefined;
    if (leadIn === undefined) add(whole, token.type === "table" ? headOf(lines) : undefined);
  }
  if (leadIn !== undefined) add([leadIn]);
  return { title, paragraphs };
}

/** YAML between lines of `---`, or TOML between lines of `+++`, at the very start. */
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

/** The rest of a table says nothing without its head, and little with one that is a paragraph itself. */
function headOf([head = ""]: readonly string[]): string | undefined {
  return head.length <= gathered ? head : undefined;
}

function blocks(tokens: readonly Token[]): string[] {
  // As above.
  return tokens.flatMap((token) => linesOf(token as MarkedToken));
}

function rowOf(cells: readonly Tokens.TableCell[]): string {
  return cells
    .map(({ tokens }) => textOf(tokens))
    .filter((cell) => cell !== "")
    .join("; ");
}

/** Inline tokens as text: no marks, no tags, the text of links, what stands in for images. */
function textOf(tokens: readonly Token[]): string {
  return tokens.map(inlineText).join("").replace(/\s+/g, " ").trim();
}

function inlineText(token: Token): string {
  // As above: no extension adds token types.
  const inline = token as MarkedToken;
  if (inline.type === "codespan") return inline.text;
  if (inline.type === "br") return " ";
  if (inline.type === "html" || inline.type === "checkbox") return "";
  if ("tokens" in inline && inline.tokens !== undefined) {
    return inline.tokens.map(inlineText).join("");
  }
  return "text" in inline ? decode(inline.text) : "";
}

/** HTML without tags and comments. One pass: what is never closed ends the text. */
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

/** The character references that prose uses; others stay as they are. */
function decode(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]+));/gi, (whole, dec, hex, name) => {
    if (typeof name === "string") return named[name.toLowerCase()] ?? whole;
    const code = typeof dec === "string" ? Number(dec) : Number.parseInt(String(hex), 16);
    return code > 0 && code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
  });
}

/**
 * Lines gathered into texts; what holds neither letter nor digit is none. `repeated`: first line of all that follow.
 */
function pieces(lines: readonly string[], repeated?: string): string[] {
  const texts: string[] = [];
  let text = "";
  for (const line of lines.flatMap(cut)) {
    if (text !== "" && text.length + 1 + line.length > gathered) {
      texts.push(text);
      text = repeated === undefined ? line : `${repeated}\n${line}`;
    } else text = text === "" ? line : `${text}\n${line}`;
  }
  texts.push(text);
  return texts.filter((each) => /[\p{L}\p{N}]/u.test(each)).map((each) => each.trim());
}

/** A line in parts of at most `longestText` characters, between words where there are any. */
function cut(line: string): string[] {
  const parts: string[] = [];
  let rest = line;
  while (rest.length > longestText) {
    const space = rest.lastIndexOf(" ", longestText);
    const end = space > longestText / 2 ? space : longestText;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return [...parts, rest];
}
