const censor = "[redacted]";

/** Members whose value is always a secret, at any depth. The value is a quoted string, including its escapes. */
const secretMembers =
  /"((?:proxy-)?authorization|(?:set-)?cookie|password|passphrase|secret|token|confirmation_token|(?:x-)?api[-_]?key)":"(?:[^"\\]|\\.)*"/gi;
/** The text of an API key (decisions.md section 1). The environment is kept, so that a wrong one can be noticed. */
const keyTexts = /gateway_(dev|stage|prod)_[0-9a-f]{32}/gi;
const bearerTokens = /\b(Bearer|Basic) +[A-Za-z0-9\-._~+/]+=*/gi;
/** The credentials in the URL of an upstream or a store: `https://user:password@node`. */
const urlCredentials = /:\/\/[^/@\s"?#]+@/g;

/** Works on text, so it covers messages and stack traces at any depth, which pino's path-based `redact` does not. */
export function redact(line: string): string {
  return line
    .replace(secretMembers, `"$1":"${censor}"`)
    .replace(keyTexts, `gateway_$1_${censor}`)
    .replace(bearerTokens, `$1 ${censor}`)
    .replace(urlCredentials, `://${censor}@`);
}
