/** What must never be in a log, and how it is taken out. */

const censor = "[redacted]";

/** Members whose value is a secret wherever they stand; the second group is the quoted value, escapes included. */
const secretMembers =
  /"((?:proxy-)?authorization|(?:set-)?cookie|password|passphrase|secret|token|confirmation_token|api[-_]?key)":"(?:[^"\\]|\\.)*"/gi;
/** decisions.md section 1: an API key's text. The environment stays, to tell a wrong one from a right one. */
const keyTexts = /gateway_(dev|stage|prod)_[0-9a-f]{32}/gi;
const bearerTokens = /\b(Bearer|Basic) +[A-Za-z0-9\-._~+/]+=*/gi;
/** `https://user:password@node`: the credentials of an upstream's or a store's URL. */
const urlCredentials = /:\/\/[^/@\s"?#]+@/g;

/**
 * Takes secrets out of a line of JSON, or of any text: values of members that are named as one, API keys, bearer
 * tokens, credentials in URLs. It works on the text, and so at any depth and inside messages and stacks, where pino's
 * path-based `redact` does not reach.
 */
export function redact(line: string): string {
  return line
    .replace(secretMembers, `"$1":"${censor}"`)
    .replace(keyTexts, `gateway_$1_${censor}`)
    .replace(bearerTokens, `$1 ${censor}`)
    .replace(urlCredentials, `://${censor}@`);
}
