/**
 * Hides secrets that are written into pipeline.yaml itself. Most files contain only references such as
 * `${GATEWAY_SECRET}`, which stay as they are.
 */
import { isScalar, parseDocument, visit } from "yaml";
import { redact } from "sluice-gateway/plugin";

const censor = "[redacted]";
/** Options with these names contain a secret, for example `apiKey` or `webhook_secret`. */
const secretName = /(?:secret|password|passphrase|token|api[-_]?key|authorization|cookie)$/i;
/** References without a default, such as `${NAME}` or `Bearer ${NAME}`. */
const onlyReferences = /^(?:(?:Bearer|Basic)\s+)?(?:\$\{\w+(?::-)?\})+$/;

/**
 * Returns the text with the values of secret options, the credentials in URLs and the texts of API keys replaced. The
 * number of lines stays the same. The text may have syntax errors.
 */
export function maskSecrets(text: string): string {
  const document = parseDocument(text, { prettyErrors: false, version: "1.2", logLevel: "silent" });
  const ranges: (readonly [number, number])[] = [];
  visit(document, {
    Pair(_, { key, value }) {
      if (!isScalar(key) || !secretName.test(String(key.value)) || !isScalar(value)) return;
      const { value: content, range } = value;
      // Numbers and booleans are not secrets, as in `maxTokens: 100`.
      if (typeof content !== "string" || content === "" || onlyReferences.test(content)) return;
      if (range) ranges.push([range[0], range[1]]);
    },
  });
  let masked = text;
  for (const [from, to] of ranges.toReversed()) {
    const hidden = masked.slice(from, to).replaceAll(/\S.*/g, censor);
    masked = masked.slice(0, from) + hidden + masked.slice(to);
  }
  return redact(masked);
}
