/** HTML from templates in which every text is escaped: nothing that a plugin or an operator wrote becomes a tag. */

type Value = string | number | Markup | readonly Markup[] | undefined;

/** HTML that was made by `html`. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Texts are escaped, markup is taken as it is, undefined is nothing. */
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

/** A text of ours or of a plugin's with `code` in backticks. */
export function prose(text: string): Markup {
  const parts = text.split(/`([^`]+)`/);
  const marked = parts.map((part, index) =>
    index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`,
  );
  return html`${marked}`;
}
