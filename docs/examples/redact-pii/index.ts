/** Replaces personal data in the messages of chat requests before a model sees them. */
import { defineStep } from "sluice-gateway/plugin";
import { isObject, parseJson } from "sluice-gateway/toolkit";

/** The kinds of personal data and their patterns. Card numbers are located in runs of groups of digits. */
const patterns = {
  email: /(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  phone: /(?<![\w.])\+?\d{1,3}[ -]\(?\d{2,4}\)?[ -]\d{3,4}[ -]?\d{2,4}(?!\w)/g,
  iban: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g,
  card: /\b\d(?:[ -]?\d){12,}\b/g,
} as const;
type Kind = keyof typeof patterns;
const kinds = Object.keys(patterns) as Kind[];

const kindList = { type: "array", items: { enum: kinds }, default: ["email", "iban", "card"] };
const size = { type: "integer", minimum: 1, maximum: 16_777_216, default: 1_048_576 };

export default defineStep<{ readonly kinds: readonly Kind[]; readonly bodyBytes: number }>({
  name: "redact-pii",
  contract: "^1.2",
  description: "Replaces personal data in chat requests.",
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
    const replaced = metrics.counter("acme_redacted_total", title, ["kind"]);

    function redact(text: string): string {
      return options.kinds.reduce((result, kind) => {
        const replace = (): string => {
          replaced.with({ kind }).add(1);
          return `[${kind.toUpperCase()}]`;
        };
        const replaceIn = kind === "card" ? (run: string) => replaceCards(run, replace) : replace;
        return result.replaceAll(patterns[kind], replaceIn);
      }, text);
    }

    /** `content`: a string, or a list of parts, some of which have a text. */
    function redactContent(content: unknown): unknown {
      if (typeof content === "string") return redact(content);
      return mapObjects(content, ({ text }) => typeof text === "string" && { text: redact(text) });
    }

    /** Redacts the arguments of a tool call: JSON text, which remains JSON because a number becomes a string. */
    function redactArguments(text: string): string {
      let parsed: unknown;
      try {
        parsed = parseJson(text);
      } catch {
        return redact(text);
      }
      const after = JSON.stringify(parsed, (_, value: unknown) => {
        if (typeof value !== "string" && typeof value !== "number") return value;
        const redacted = redact(String(value));
        return redacted === String(value) ? value : redacted;
      });
      return after === JSON.stringify(parsed) ? text : after;
    }

    return {
      bodyBytes: options.bodyBytes,
      json: true,
      requestBody(x) {
        const parsed = x.json();
        if (!parsed.ok || !isObject(parsed.value)) return;
        const { messages } = parsed.value;
        const redacted = mapObjects(messages, ({ content, tool_calls: calls }) => ({
          content: redactContent(content),
          tool_calls: mapObjects(calls, ({ function: called }) => {
            if (!isObject(called) || typeof called["arguments"] !== "string") return false;
            return { function: { ...called, arguments: redactArguments(called["arguments"]) } };
          }),
        }));
        // A request without personal data keeps its bytes.
        if (JSON.stringify(redacted) === JSON.stringify(messages)) return;
        x.replaceBody(Buffer.from(JSON.stringify({ ...parsed.value, messages: redacted })));
      },
    };
  },
});

/** Replaces members of the objects in a list. Returns a value that is not a list unchanged. */
function mapObjects(list: unknown, change: (one: Record<string, unknown>) => object | false) {
  if (!Array.isArray(list)) return list;
  return list.map((one: unknown): unknown => (isObject(one) ? { ...one, ...change(one) } : one));
}

/** Replaces card numbers in a run of groups of digits. They begin and end with a group. */
function replaceCards(run: string, replace: () => string): string {
  let result = "";
  for (let at = 0, end; at < run.length; at = end ?? at + 1) {
    end = at === 0 || !/\d/.test(run.charAt(at - 1)) ? endOfCard(run, at) : undefined;
    result += end === undefined ? run.charAt(at) : replace();
  }
  return result;
}

/** Returns the end of the longest card number: 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1). */
function endOfCard(text: string, start: number): number | undefined {
  let end: number | undefined;
  // The sums of the check, with the last digit as it is and doubled.
  let [sum, doubled] = [0, 0];
  for (let at = start, count = 0; count < 19 && at < text.length; at++) {
    if (!/\d/.test(text.charAt(at))) continue;
    const digit = Number(text.charAt(at));
    [sum, doubled] = [doubled + digit, sum + 2 * digit - (digit > 4 ? 9 : 0)];
    if (++count >= 13 && sum % 10 === 0 && !/\d/.test(text.charAt(at + 1))) end = at + 1;
  }
  return end;
}
