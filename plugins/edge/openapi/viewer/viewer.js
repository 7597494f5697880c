/**
 * Starts Swagger UI with this gateway's document. Swagger UI shows the operations and sends requests. This file adds the
 * key that the reader enters, code samples, and the capabilities that an operation requires.
 */

/** @typedef {import("./samples.js").SampleRequest} SampleRequest */

/**
 * The parts of an operation that this file reads.
 *
 * @typedef {object} Operation
 * @property {readonly Readonly<Record<string, readonly string[]>>[]} security
 * @property {{ name: string, in: string, required: boolean, description?: string, example?: unknown }[]} [parameters]
 * @property {{ content: Readonly<Record<string, { example?: unknown }>> }} [requestBody]
 * @property {Readonly<Record<string, unknown>>} responses
 */

/**
 * The values that Swagger UI passes to plugins, as far as this file uses them.
 *
 * @typedef {object} System
 * @property {any} React
 */

// The file is loaded by a query of the page's own path, so an ordinary relative import would miss it.
const { samples } = /** @type {typeof import("./samples.js")} */ (
  await import(new URL("?asset=samples.js", import.meta.url).href)
);

const root = document.querySelector("#viewer");
const keyField = /** @type {HTMLInputElement} */ (document.querySelector("#key"));
const gateway = new URL(root?.getAttribute("data-url") ?? "/", location.href);

const scheme = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", scheme.matches);
scheme.addEventListener("change", followScheme);
followScheme();

/** @type {{ servers: object[], paths: Record<string, Record<string, Operation>> }} */
const spec = await (await fetch("?asset=openapi.json")).json();
spec.servers = [{ url: gateway.href.replace(/\/$/, "") }];
for (const operations of Object.values(spec.paths)) {
  for (const operation of Object.values(operations)) {
    // Agents set these headers about themselves. They would take most of the form of every operation.
    operation.parameters = operation.parameters?.filter(
      ({ name, required }) => required || !name.toLowerCase().startsWith("x-agent-"),
    );
    describeOptional(operation);
  }
}

/**
 * Moves the examples of optional parameters to their descriptions. Swagger UI would otherwise send them with every
 * request, for example a fixed `X-Request-Id`.
 *
 * @param {Operation} operation
 */
function describeOptional({ parameters = [] }) {
  for (const parameter of parameters) {
    if (parameter.required || parameter.example === undefined) continue;
    parameter.description = `${parameter.description ?? ""} Example: \`${textOf(parameter.example)}\``;
    delete parameter.example;
  }
}

/**
 * Writes an example as it is sent. A text has no quotes.
 *
 * @param {unknown} example
 */
function textOf(example) {
  return typeof example === "string" ? example : JSON.stringify(example ?? "");
}

/** @param {Operation | undefined} operation */
function isWebSocket(operation) {
  return operation !== undefined && "101" in operation.responses;
}

/**
 * Returns the operation's request with the examples of everything that it requires.
 *
 * @param {string} path
 * @param {string} method
 * @param {Operation} operation
 * @returns {SampleRequest}
 */
function exampleRequest(path, method, { security, parameters = [], requestBody }) {
  const required = parameters.filter((parameter) => parameter.required);
  const filled = path.replaceAll(/\{([^}]+)\}/g, (whole, name) => {
    const example = required.find((one) => one.in === "path" && one.name === name)?.example;
    return example === undefined
      ? whole
      : encodeURIComponent(textOf(example)).replaceAll("%2F", "/");
  });
  const url = new URL(gateway.href.replace(/\/$/, "") + filled);
  /** @type {Record<string, string>} */
  const headers = {};
  for (const { in: place, name, example } of required) {
    if (place === "query") url.searchParams.set(name, textOf(example));
    if (place === "header") headers[name] = textOf(example);
  }
  const [body] = Object.entries(requestBody?.content ?? {});
  if (body !== undefined) headers["Content-Type"] = body[0];
  return {
    method: method.toUpperCase(),
    url: url.href,
    headers,
    needsKey: needsKey(security),
    ...(body !== undefined && { body: textOf(body[1].example) }),
  };
}

/** @param {Operation["security"]} security */
function needsKey(security) {
  return security.some((one) => one["key"] !== undefined);
}

/** @param {Operation["security"]} security */
function accessText(security) {
  const keys = security.flatMap(({ key }) => (key === undefined ? [] : [key]));
  if (keys.length === 0) return "This operation needs no key.";
  const capabilities = keys.filter((key) => key.length > 0).map((key) => key.join(" and "));
  return capabilities.length === 0
    ? "This operation needs an API key."
    : `This operation needs an API key with ${capabilities.join(" or ")}.`;
}

/**
 * Converts a request that Swagger UI has sent. It does not contain the key, which is added when the request is sent.
 *
 * @param {{ url: string, method: string, headers?: Record<string, string>, body?: unknown }} sent
 * @param {Operation} operation
 * @returns {SampleRequest}
 */
function sentRequest({ url, method, headers = {}, body }, { security }) {
  return {
    method,
    url,
    headers,
    needsKey: needsKey(security),
    ...(typeof body === "string" && { body }),
  };
}

/**
 * Replaces parts of Swagger UI.
 *
 * @param {System} system
 */
function plugin({ React }) {
  const h = React.createElement;

  /** Code for a request, in the language that the reader chooses. `sent`: the request that was executed last. */
  function Samples({ path, method, operation, sent }) {
    const [language, choose] = React.useState("curl");
    const [isCopied, setCopied] = React.useState(false);
    const code = samples[language]?.(sent ?? exampleRequest(path, method, operation)) ?? "";
    const buttons = Object.keys(samples).map((name) =>
      h(
        "button",
        {
          key: name,
          type: "button",
          className: "btn",
          "aria-pressed": name === language,
          onClick: () => {
            choose(name);
            setCopied(false);
          },
        },
        name,
      ),
    );
    const copy = async () => {
      await navigator.clipboard.writeText(code);
      setCopied(true);
    };
    return h(
      "section",
      { className: "samples" },
      h("h4", null, sent === undefined ? "Code for the example" : "Code for this request"),
      h("p", null, ...buttons),
      h("pre", { tabIndex: 0 }, h("code", null, code)),
      h(
        "p",
        { role: "status" },
        // Browsers offer the clipboard to secure pages only.
        navigator.clipboard === undefined
          ? undefined
          : h("button", { type: "button", className: "btn", onClick: copy }, "Copy"),
        isCopied ? " Copied." : undefined,
      ),
    );
  }

  const none = () => () => null;
  return {
    wrapComponents: {
      // The key field above replaces Swagger UI's dialog, and the samples replace its curl.
      authorizeBtn: none,
      authorizeOperationBtn: none,
      curl: none,
      responses: (Original) => (props) => {
        /** @type {Operation | undefined} */
        const operation = spec.paths[props.path]?.[props.method];
        if (operation === undefined) return h(Original, props);
        const sent = props.request?.toJS();
        return h(
          React.Fragment,
          null,
          h("p", { className: "access" }, accessText(operation.security)),
          isWebSocket(operation)
            ? h("p", { className: "access" }, "Connect to this path with a WebSocket client.")
            : h(Samples, {
                path: props.path,
                method: props.method,
                operation,
                sent: sent === undefined ? undefined : sentRequest(sent, operation),
              }),
          h(Original, props),
        );
      },
    },
    statePlugins: {
      spec: {
        wrapSelectors: {
          // Swagger UI cannot open a WebSocket.
          allowTryItOutFor: (original) => (state, path, method) =>
            original(state, path, method) && !isWebSocket(spec.paths[path]?.[method]),
        },
      },
    },
  };
}

/** @type {any} */
const { SwaggerUIBundle } = globalThis;
SwaggerUIBundle({
  spec,
  domNode: root,
  plugins: [plugin],
  deepLinking: true,
  filter: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  persistAuthorization: false,
  requestInterceptor: (request) => {
    const key = keyField.value.trim();
    if (key !== "" && new URL(request.url, location.href).origin === gateway.origin) {
      request.headers["Authorization"] = `Bearer ${key}`;
    }
    return request;
  },
});
