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
