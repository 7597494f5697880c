/** Builds HTML from templates. Every text is escaped, so text from a plugin or an operator cannot become a tag. */

type Value = string | number | Markup | readonly Markup[] | undefined;

/** HTML that was created by `html`. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Escapes texts, inserts markup unchanged and omits undefined. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Markup {
  const parts = strings.map((text, index) => text + textOf(values[index]));
  return new Markup(parts.join(""));
}

function textOf(value: Value): string {
  if (value === undefined) return "";
  if (value instanceof Markup) return value.text;
  if (typeof value === "object") return value.map(({ text }) => text).join("");
  return escape(String(value));
}

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (sign) => escapes[sign] ?? sign);
}

/** Converts a text with `code` in backticks to markup. */
export function inlineMarkup(text: string): Markup {
  const parts = text.split(/`([^`]+)`/);
  const marked = parts.map((part, index) =>
    index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`,
  );
  return html`${marked}`;
}
