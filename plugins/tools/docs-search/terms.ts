/** Splits text into search terms, in the same way for documents and queries. */

/** Longer words, such as hex dumps of blocks, are not indexed. */
const maxTermLength = 128;

const words = /[\p{L}\p{N}][\p{L}\p{N}\p{M}_$]*/gu;
/** Parts of camelCase words: `HTTPServer2` has HTTP, Server and 2. */
const camelCaseParts = /\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?[\p{Ll}\p{Lo}\p{M}]+|\p{Lu}+|\p{N}+/gu;
const plain = /^\p{Lu}?[\p{Ll}\p{M}]*$/u;
const beyondAscii = /[^\p{ASCII}]/u;
const combiningMarks = /[\u0300-\u036f]/g;
/** Scripts that do not separate words by spaces. */
const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
/** Created when it is first needed, because that takes 20 ms. */
let segmenter: Intl.Segmenter | undefined;

/**
 * An identifier yields itself, its parts and their camelCase parts, so `state_getStorage` is found by its full name, by
 * `getStorage` and by `storage`. Case, Unicode compatibility forms, accents and English plurals are ignored.
 */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const [word] of normalise(text).matchAll(words)) {
    if (word.length > maxTermLength) continue;
    if (plain.test(word)) terms.push(singular(word.toLowerCase()));
    else if (unspaced.test(word)) terms.push(...segments(word));
    else terms.push(...identifier(word));
  }
  return terms;
}

function normalise(text: string): string {
  if (!beyondAscii.test(text)) return text;
  return text.normalize("NFKD").replace(combiningMarks, "").normalize("NFC");
}

function segments(word: string): string[] {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: "word" });
  return Array.from(segmenter.segment(word))
    .filter((segment) => segment.isWordLike === true)
    .map(({ segment }) => segment.toLowerCase());
}

function identifier(word: string): Set<string> {
  const parts = word.split(/[_$]+/);
  const pieces = [word, ...parts, ...parts.flatMap((part) => part.match(camelCaseParts) ?? [])];
  return new Set(
    pieces.filter((piece) => piece !== "").map((each) => singular(each.toLowerCase())),
  );
}

/** The S stemmer: D. Harman, "How effective is suffixing?", JASIS 42 (1991). */
function singular(term: string): string {
  if (term.length < 4 || !term.endsWith("s")) return term;
  if (term.endsWith("ies")) return /[ae]ies$/.test(term) ? term : `${term.slice(0, -3)}y`;
  if (term.endsWith("es")) return /[aeo]es$/.test(term) ? term : term.slice(0, -1);
  return /[us]s$/.test(term) ? term : term.slice(0, -1);
}
