/** Writes a request as code: curl, JavaScript (fetch) and Python (its standard library). */

/**
 * A request to show. `headers`: without the key. `body`: undefined if there is none.
 *
 * @typedef {object} SampleRequest
 * @property {string} method
 * @property {string} url
 * @property {Readonly<Record<string, string>>} headers
 * @property {boolean} needsKey
 * @property {string} [body]
 */

/**
 * Functions that write the code, by the name of the language. The code reads the key from the environment variable
 * SLUICE_API_KEY.
 *
 * @type {Readonly<Record<string, (request: SampleRequest) => string>>}
 */
export const samples = { curl, JavaScript: javaScript, Python: python };

/** @param {SampleRequest} request */
function curl({ method, url, headers, needsKey, body }) {
  const lines = [`curl -X ${method} ${shellText(url)}`];
  if (needsKey) lines.push('-H "Authorization: Bearer $SLUICE_API_KEY"');
  for (const [name, value] of Object.entries(headers))
    lines.push(`-H ${shellText(`${name}: ${value}`)}`);
  if (body !== undefined) lines.push(`--data-raw ${shellText(pretty(body))}`);
  return lines.join(" \\\n  ");
}

/** @param {SampleRequest} request */
function javaScript({ method, url, headers, needsKey, body }) {
  const fields = Object.entries(headers).map(
    ([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
  );
  if (needsKey) fields.unshift("Authorization: `Bearer ${process.env.SLUICE_API_KEY}`");
  const value = json(body);
  const sent =
    value === undefined
      ? JSON.stringify(body)
      : `JSON.stringify(${indented(JSON.stringify(value, undefined, 2))})`;
  return [
    `const response = await fetch(${JSON.stringify(url)}, {`,
    `  method: ${JSON.stringify(method)},`,
    ...(fields.length === 0 ? [] : ["  headers: {", ...fields.map((one) => `    ${one},`), "  },"]),
    ...(body === undefined ? [] : [`  body: ${sent},`]),
    "});",
    "console.log(response.status, await response.text());",
  ].join("\n");
}

/** @param {SampleRequest} request */
function python({ method, url, headers, needsKey, body }) {
  const fields = Object.entries(headers).map(
    ([name, value]) => `${pythonText(name)}: ${pythonText(value)}`,
  );
  if (needsKey) fields.unshift(`"Authorization": "Bearer " + os.environ["SLUICE_API_KEY"]`);
  const value = json(body);
  const sent =
    value === undefined
      ? `${pythonText(body ?? "")}.encode()`
      : `json.dumps(${indented(pythonValue(value))}).encode()`;
  return [
    `import ${[...(value === undefined ? [] : ["json"]), ...(needsKey ? ["os"] : []), "urllib.request"].join(", ")}`,
    "",
    "request = urllib.request.Request(",
    `  ${pythonText(url)},`,
    `  method=${pythonText(method)},`,
    ...(fields.length === 0 ? [] : ["  headers={", ...fields.map((one) => `    ${one},`), "  },"]),
    ...(body === undefined ? [] : [`  data=${sent},`]),
    ")",
    "with urllib.request.urlopen(request) as response:",
    "  print(response.status, response.read().decode())",
  ].join("\n");
}

/**
 * Parses a body. Undefined if it is not JSON.
 *
 * @param {string | undefined} body
 * @returns {unknown}
 */
function json(body) {
  try {
    return body === undefined ? undefined : JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** @param {string} body */
function pretty(body) {
  const value = json(body);
  return value === undefined ? body : JSON.stringify(value, undefined, 2);
}

/** @param {string} text */
function indented(text) {
  return text.replaceAll("\n", "\n  ");
}

/** @param {string} text */
function shellText(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * The escapes of JSON are also those of Python, except for half of a surrogate pair, which no body contains.
 *
 * @param {string} text
 */
function pythonText(text) {
  return JSON.stringify(text);
}

/**
 * Writes a JSON value in Python.
 *
 * @param {unknown} value
 * @param {string} [margin]
 * @returns {string}
 */
function pythonValue(value, margin = "") {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return pythonText(value);
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${margin}  `;
  const [open, close, parts] = Array.isArray(value)
    ? ["[", "]", value.map((item) => pythonValue(item, inner))]
    : [
        "{",
        "}",
        Object.entries(value).map(
          ([name, member]) => `${pythonText(name)}: ${pythonValue(member, inner)}`,
        ),
      ];
  if (parts.length === 0) return open + close;
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${margin}${close}`;
}
