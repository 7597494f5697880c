/** Replaces personal data in the messages of chat requests before a model sees them. */
import { defineStep, isObject, parseJson } from "sluice-gateway/plugin";
import { replaceCards } from "./cards.ts";

/** Patterns of personal data. The time of each search grows linearly with the length of the text. */
const patterns = {
  email: /(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g,
  phone: /(?<![\w.])\+?\d{1,3}[ -]\(?\d{2,4}\)?[ -]\d{3,4}[ -]?\d{2,4}(?!\w)/g,
  iban: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b/g,
} as const;
const kinds = ["email", "phone", "iban", "card"] as const;
type Kind = (typeof kinds)[number];

const kindList = { type: "array", items: { enum: kinds }, default: ["email", "iban", "card"] };
const size = { type: "integer", minimum: 1, maximum: 2_097_152, default: 1_048_576 };

export default defineStep<{ readonly kinds: readonly Kind[]; readonly bodyBytes: number }>({
  name: "redact-pii",
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

    /** `content`: a string, or a list of parts, some of which have a text. */
    function redactContent(content: unknown): unknown {
      if (typeof content === "string") return redact(content);
      return mapObjects(content, ({ text }) => typeof text === "string" && { text: redact(text) });
    }

    /** Redacts all texts and numbers in a value of JSON. A number that is replaced becomes a text. */
    function redactAll(whole: unknown): unknown {
      const text = JSON.stringify(whole, (_, value: unknown) => {
        if (typeof value !== "string" && typeof value !== "number") return value;
        const redacted = redact(String(value));
        return redacted === String(value) ? value : redacted;
      });
      return text === undefined ? undefined : parseJson(text);
    }

    /** Redacts the arguments of a tool call: JSON text, which remains JSON. */
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
        const { messages, chat_template_kwargs: variables } = parsed.value;
        const redacted = mapObjects(
          messages,
          ({ content, reasoning_content: thoughts, name, tool_calls: calls }) => ({
            content: redactContent(content),
            reasoning_content: redactContent(thoughts),
            name: redactContent(name),
            tool_calls: mapObjects(calls, ({ function: called }) => {
              if (!isObject(called) || typeof called["arguments"] !== "string") return false;
              return { function: { ...called, arguments: redactArguments(called["arguments"]) } };
            }),
          }),
        );
        const changed = { messages: redacted, chat_template_kwargs: redactAll(variables) };
        const after = JSON.stringify({ ...parsed.value, ...changed });
        // A request without personal data keeps its bytes.
        if (after !== JSON.stringify(parsed.value)) x.replaceBody(Buffer.from(after));
      },
    };
  },
});

/** Replaces members of the objects in a list. Returns a value that is not a list unchanged. */
function mapObjects(list: unknown, change: (one: Record<string, unknown>) => object | false) {
  if (!Array.isArray(list)) return list;
  return list.map((one: unknown): unknown => (isObject(one) ? { ...one, ...change(one) } : one));
}
