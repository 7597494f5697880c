/** Replaces personal data in the messages of chat requests before a model sees them. */
import { defineStep } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/toolkit";

/** The kinds of personal data and their patterns. A card number must also have a correct check digit. */
const patterns = {
  email: /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  phone: /(?<![\w.])\+?\d{1,3}[ -]\(?\d{2,4}\)?[ -]\d{3,4}[ -]?\d{2,4}(?!\w)/g,
  iban: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g,
  card: /\b\d(?:[ -]?\d){12,18}\b/g,
} as const;
type Kind = keyof typeof patterns;
const kinds = Object.keys(patterns) as Kind[];

interface Options {
  readonly kinds: readonly Kind[];
  readonly bodyBytes: number;
}

export default defineStep<Options>({
  name: "redact-pii",
  contract: "^1.2",
  description: "Replaces personal data in chat requests.",
  options: {
    type: "object",
    properties: {
      kinds: {
        type: "array",
        items: { enum: kinds },
        default: ["email", "iban", "card"],
        description: "What is replaced.",
      },
      bodyBytes: {
        type: "integer",
        minimum: 1,
        maximum: 16_777_216,
        default: 1_048_576,
        description: "Maximum size of a request.",
      },
    },
    additionalProperties: false,
  },
  permissions: { body: "write" },
  start(options, { metrics }) {
    const replaced = metrics.counter(
      "acme_redacted_total",
      "Values that were replaced in requests.",
      ["kind"],
    );

    function redact(text: string): string {
      let result = text;
      for (const kind of options.kinds) {
        result = result.replaceAll(patterns[kind], (found) => {
          if (kind === "card" && !hasCheckDigit(found)) return found;
          replaced.with({ kind }).add(1);
          return `[${kind.toUpperCase()}]`;
        });
      }
      return result;
    }

    /** `content`: a string, or a list of parts, some of which have a text. */
    function redactContent(content: unknown): unknown {
      if (typeof content === "string") return redact(content);
      if (!Array.isArray(content)) return content;
      return content.map((part: unknown) =>
        isObject(part) && typeof part["text"] === "string"
          ? { ...part, text: redact(part["text"]) }
          : part,
      );
    }

    return {
      bodyBytes: options.bodyBytes,
      json: true,
      requestBody(x) {
        const parsed = x.json();
        if (!parsed.ok || !isObject(parsed.value)) return;
        const { messages } = parsed.value;
        if (!Array.isArray(messages)) return;
        const redacted = messages.map((message: unknown) =>
          isObject(message) ? { ...message, content: redactContent(message["content"]) } : message,
        );
        const before = JSON.stringify(messages);
        // A request without personal data keeps its bytes.
        if (JSON.stringify(redacted) === before) return;
        x.replaceBody(Buffer.from(JSON.stringify({ ...parsed.value, messages: redacted })));
      },
    };
  },
});

/** Returns whether the number passes the Luhn check (ISO/IEC 7812-1). */
function hasCheckDigit(text: string): boolean {
  const digits = [...text.replaceAll(/\D/g, "")].toReversed().map(Number);
  const sum = digits.reduce((total, digit, at) => {
    const value = at % 2 === 1 ? digit * 2 : digit;
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}
