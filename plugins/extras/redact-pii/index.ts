import { defineStep, isObject, parseJson } from "sluice-gateway/plugin";

/** The time of each search grows linearly with the length of the text. */
const patterns = {
  email: /(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  phone: /(?<![\w.])\+?\d{1,3}[ -]\(?\d{2,4}\)?[ -]\d{3,4}[ -]?\d{2,4}(?!\w)/g,
  iban: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g,
} as const;
const kinds = ["email", "phone", "iban", "card"] as const;
type Kind = (typeof kinds)[number];

/** The members of a request that are sent to the model, in the four APIs. */
const prompts = ["messages", "system", "input", "instructions"];
/** The members of messages, items and parts that have texts. */
const texts =
  "content reasoning_content name text refusal thinking summary output tool_calls".split(" ");

const kindList = { type: "array", items: { enum: kinds }, default: ["email", "iban", "card"] };
const size = { type: "integer", minimum: 1, maximum: 2_097_152, default: 1_048_576 };

export default defineStep<{ readonly kinds: readonly Kind[]; readonly bodyBytes: number }>({
  name: "redact-pii",
  description: "Replaces personal data in requests to models.",
  options: {
    type: "object",
    properties: {
      kinds: { ...kindList, description: "What is replaced." },
      bodyBytes: { ...size, description: "Maximum size of a request." },
    },
    additionalProperties: false,
  },
  permissions: { body: "write" },
  start(options, { metrics }) {
    const title = "Values that were replaced in requests.";
    const replaced = metrics.counter("sluice_redacted_total", title, ["kind"]);

    function redact(text: string): string {
      return options.kinds.reduce((result, kind) => {
        const replace = (): string => {
          replaced.with({ kind }).add(1);
          return `[${kind.toUpperCase()}]`;
        };
        if (kind === "card") return replaceCards(result, replace);
        return result.replaceAll(patterns[kind], replace);
      }, text);
    }

    function redactContent(content: unknown): unknown {
      if (!Array.isArray(content)) return typeof content === "string" ? redact(content) : content;
      return content.map((one: unknown) => (isObject(one) ? redactPart(one) : redactContent(one)));
    }

    /** Redacts the texts of a message (of chat or the Messages API), an item (Responses) or a part of either. */
    function redactPart(part: Record<string, unknown>): object {
      const { arguments: text, input, function: called } = part;
      return {
        ...redactMembers(part, texts),
        ...(typeof text === "string" && { arguments: redactArguments(text) }),
        // The input of a tool: an object in the Messages API, and a text in the Responses API.
        ...(input !== undefined && { input: redactAll(input) }),
        ...(isObject(called) && { function: redactPart(called) }),
      };
    }

    function redactMembers(of: object, names: readonly string[]): object {
      const redactOne = ([name, value]: [string, unknown]): [string, unknown] =>
        names.includes(name) ? [name, redactContent(value)] : [name, value];
      return Object.fromEntries(Object.entries(of).map(redactOne));
    }

    const redactPair = ([name, value]: [string, unknown]) => [redact(name), redactAll(value)];

    /** A number that is replaced becomes a text. */
    function redactAll(value: unknown): unknown {
      if (Array.isArray(value)) return value.map(redactAll);
      if (isObject(value)) return Object.fromEntries(Object.entries(value).map(redactPair));
      if (typeof value !== "string" && typeof value !== "number") return value;
      const redacted = redact(String(value));
      return redacted === String(value) ? value : redacted;
    }

    /** JSON text remains JSON. */
    function redactArguments(text: string): string {
      let parsed: unknown;
      try {
        parsed = parseJson(text);
      } catch {
        return redact(text);
      }
      const after = JSON.stringify(redactAll(parsed));
      return after === JSON.stringify(parsed) ? text : after;
    }

    return {
      bodyBytes: options.bodyBytes,
      json: true,
      requestBody(x) {
        const parsed = x.json();
        if (!parsed.ok || !isObject(parsed.value)) return;
        const { chat_template_kwargs: variables } = parsed.value;
        const redacted = redactMembers(parsed.value, prompts);
        const after = JSON.stringify({ ...redacted, chat_template_kwargs: redactAll(variables) });
        // A request without personal data keeps its bytes.
        if (after !== JSON.stringify(parsed.value)) x.replaceBody(Buffer.from(after));
      },
    };
  },
});

/**
 * A card number begins and ends with a whole group of digits, and single spaces or hyphens may divide it. If several
 * begin at the same place, the longest one is replaced. The time is proportional to the length of the text.
 */
export function replaceCards(text: string, replace: () => string): string {
  let [result, kept] = ["", 0];
  for (let at = 0; at < text.length; at++) {
    if (!isDigit(text.charCodeAt(at)) || isWord(text.charCodeAt(at - 1))) continue;
    const end = endOfCard(text, at);
    if (end === undefined) continue;
    result += text.slice(kept, at) + replace();
    kept = end;
    at = end - 1;
  }
  return result + text.slice(kept);
}

/** Returns the end of the longest card number: 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1). */
function endOfCard(text: string, start: number): number | undefined {
  let end: number | undefined;
  // The sums of the check, with the last digit as it is and doubled.
  let [sum, doubled] = [0, 0];
  let at = start;
  for (let count = 1, code = text.charCodeAt(at); isDigit(code) && count <= 19; count++) {
    const digit = code - 48;
    [sum, doubled] = [doubled + digit, sum + 2 * digit - (digit > 4 ? 9 : 0)];
    code = text.charCodeAt(++at);
    if (count >= 13 && sum % 10 === 0 && !isWord(code)) end = at;
    // A space or a hyphen.
    if (code === 32 || code === 45) code = text.charCodeAt(++at);
  }
  return end;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** Letters, digits and underscores, like `\w`. The code is NaN before and after the text. */
function isWord(code: number): boolean {
  return isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95;
}
