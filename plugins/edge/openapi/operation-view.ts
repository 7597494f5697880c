/** Shows an operation on the page: the required capabilities, the request and the responses. */
import type { OperationObject } from "./document.ts";
import { html, inlineMarkup, type Markup } from "./markup.ts";
import type { MediaType, Ref, ResponseObject } from "./objects.ts";
import type { Parameter } from "./parameters.ts";
import { schemaView, typeOf } from "./schema-view.ts";

/** An operation with its path and method. */
export interface Entry {
  readonly path: string;
  readonly method: string;
  readonly operation: OperationObject;
}

/** `resolve`: returns the response that a reference refers to. */
export function operationView(
  { path, method, operation }: Entry,
  resolve: (response: Ref<ResponseObject>) => ResponseObject,
): Markup {
  const { operationId, summary, description, security, parameters, requestBody } = operation;
  const responses = Object.entries(operation.responses);
  return html`<article id="${operationId}">
    <h3>
      <a href="#${operationId}"
        ><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></a
      >
    </h3>
    <p>
      <strong>${summary}.</strong>
      ${description === undefined ? undefined : inlineMarkup(description)}
    </p>
    <p>${accessView(security)}</p>
    ${parameters === undefined ? undefined : parametersView(parameters)}
    ${requestBody === undefined ? undefined : bodyView(requestBody)}
    <h4>Answers</h4>
    ${responses.map(([status, response]) => responseView(status, resolve(response)))}
  </article>`;
}

function accessView(security: OperationObject["security"]): Markup {
  const keys = security.flatMap(({ key }) => (key === undefined ? [] : [key]));
  if (keys.length === 0) return html`No key is asked for.`;
  const capabilities = keys.filter((key) => key.length > 0).map((key) => key.join(" and "));
  if (capabilities.length === 0) return html`Any API key.`;
  return html`An API key with <code>${capabilities.join(" or ")}</code>.`;
}

/** Header fields are collapsed, because they are many and mostly the same. */
function parametersView(parameters: readonly Parameter[]): Markup {
  const [fields, others] = [true, false].map((isField) =>
    parameters.filter(({ in: place }) => (place === "header") === isField),
  );
  return html`${othersView(others)}${fieldsView(fields)}`;
}

function othersView(parameters: readonly Parameter[] = []): Markup | undefined {
  if (parameters.length === 0) return undefined;
  return html`<h4>Parameters</h4>
    ${listView(parameters)}`;
}

function fieldsView(parameters: readonly Parameter[] = []): Markup | undefined {
  if (parameters.length === 0) return undefined;
  return html`<details>
    <summary>Header fields</summary>
    ${listView(parameters)}
  </details>`;
}

function listView(parameters: readonly Parameter[]): Markup {
  const rows = parameters.map(
    ({ name, in: place, required, schema, example, description = "" }) =>
      html`<li>
        <code class="name">${name}</code>
        <span class="type">${place}, ${typeOf(schema)}</span>
        ${required ? html`<span class="required">required</span>` : undefined}
        <p>${inlineMarkup(description)}</p>
        ${example === undefined ? undefined : html`<p>Example: <code>${inline(example)}</code></p>`}
      </li>`,
  );
  return html`<ul class="members">
    ${rows}
  </ul>`;
}

function mediaView([type, { schema, example }]: readonly [string, MediaType]): Markup {
  return html`<p class="type">${type}</p>
    ${schemaView(schema)}${example === undefined ? undefined : exampleView(example)}`;
}

function exampleView(example: unknown): Markup {
  const text = typeof example === "string" ? example : JSON.stringify(example, undefined, 2);
  return html`<details>
    <summary>Example</summary>
    <pre><code>${text}</code></pre>
  </details>`;
}

/** Writes an example as it is sent. A text has no quotes. */
function inline(example: unknown): string {
  return typeof example === "string" ? example : JSON.stringify(example);
}

function bodyView({ required, content }: NonNullable<OperationObject["requestBody"]>): Markup {
  const bodies = Object.entries(content).map(mediaView);
  return html`<h4>Body${required ? undefined : " (may be left out)"}</h4>
    ${bodies}`;
}

function responseView(status: string, { description, headers, content }: ResponseObject): Markup {
  const names = Object.keys(headers ?? {});
  const bodies = Object.entries(content ?? {}).map(mediaView);
  const fields =
    names.length === 0
      ? undefined
      : html`<p>
          Header fields:
          ${names.map((name, at) => html`${at === 0 ? "" : ", "}<code>${name}</code>`)}
        </p>`;
  return html`<details>
    <summary>
      <code class="status s${status.slice(0, 1)}">${status}</code> ${inlineMarkup(description)}
    </summary>
    ${fields}${bodies}
  </details>`;
}
