/** The document as a page for people: one HTML file without scripts, with its style inside. */
import type { OpenApiDocument, OperationObject } from "./document.ts";
import { html, prose, type Markup } from "./markup.ts";
import type { Ref, ResponseObject } from "./objects.ts";
import type { Parameter } from "./parameters.ts";
import { schemaView, typeOf } from "./schema-view.ts";
import { styleElement } from "./style.ts";

/** An operation at its place. */
interface Entry {
  readonly path: string;
  readonly method: string;
  readonly operation: OperationObject;
}

/** What belongs to one tag. */
interface Group {
  readonly name: string;
  readonly description: string;
  readonly entries: readonly Entry[];
}

/** `source`: the path of the document itself. */
export function pageOf(document: OpenApiDocument, source: string): string {
  const groups = groupsOf(document);
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${document.info.title}</title>
        ${styleElement}
      </head>
      <body>
        <a class="skip" href="#content">To the content</a>
        <nav aria-label="Operations">${groups.map(linksView)}</nav>
        <main id="content">${mainView(document, groups, source)}</main>
      </body>
    </html> `;
  return page.text;
}

function groupsOf({ tags, paths }: OpenApiDocument): Group[] {
  const entries = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ path, method, operation })),
  );
  return tags
    .map((tag) => ({
      ...tag,
      entries: entries.filter((one) => one.operation.tags.includes(tag.name)),
    }))
    .filter((group) => group.entries.length > 0);
}

function linksView({ name, entries }: Group): Markup {
  return html`<h2>${name}</h2>
    <ul>
      ${entries.map(linkView)}
    </ul>`;
}

function mainView(
  { openapi, info, servers, components }: OpenApiDocument,
  groups: readonly Group[],
  source: string,
): Markup {
  const resolve = (response: Ref<ResponseObject>): ResponseObject =>
    "$ref" in response
      ? (components.responses[nameOf(response.$ref)] ?? { description: "" })
      : response;
  const sections = groups.map(
    ({ name, description, entries }) =>
      html`<section>
        <h2>${name}</h2>
        <p>${prose(description)}</p>
        ${entries.map((entry) => operationView(entry, resolve))}
      </section>`,
  );
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) =>
      html`<section id="schema-${name}">
        <h3>${name}</h3>
        ${schemaView(schema)}
      </section>`,
  );
  return html`<h1>${info.title} <small>${info.version}</small></h1>
    <p>${prose(info.description)}</p>
    <p>
      Address: <code>${servers[0]?.url}</code>. For programs:
      <a href="${source}">OpenAPI ${openapi}</a>.
    </p>
    ${sections}
    <section>
      <h2>Schemas</h2>
      ${schemas}
    </section>`;
}

function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf("/") + 1);
}

function linkView({ path, method, operation }: Entry): Markup {
  return html`<li>
    <a href="#${operation.operationId}"
      ><span class="method ${method}">${method.toUpperCase()}</span> ${path}</a
    >
  </li>`;
}

function operationView(
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
      <strong>${summary}.</strong> ${description === undefined ? undefined : prose(description)}
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

/** Header fields are many and mostly the same: they wait until somebody looks. */
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
    ({ name, in: place, required, schema, description = "" }) =>
      html`<li>
        <code class="name">${name}</code>
        <span class="type">${place}, ${typeOf(schema)}</span>
        ${required ? html`<span class="required">required</span>` : undefined}
        <p>${prose(description)}</p>
      </li>`,
  );
  return html`<ul class="members">
    ${rows}
  </ul>`;
}

function bodyView({ required, content }: NonNullable<OperationObject["requestBody"]>): Markup {
  const bodies = Object.entries(content).map(
    ([type, { schema }]) =>
      html`<p class="type">${type}</p>
        ${schemaView(schema)}`,
  );
  return html`<h4>Body${required ? undefined : " (may be left out)"}</h4>
    ${bodies}`;
}

function responseView(status: string, { description, headers, content }: ResponseObject): Markup {
  const names = Object.keys(headers ?? {});
  const bodies = Object.entries(content ?? {}).map(
    ([type, { schema }]) =>
      html`<p class="type">${type}</p>
        ${schemaView(schema)}`,
  );
  const fields =
    names.length === 0
      ? undefined
      : html`<p>
          Header fields:
          ${names.map((name, at) => html`${at === 0 ? "" : ", "}<code>${name}</code>`)}
        </p>`;
  return html`<details>
    <summary>
      <code class="status s${status.slice(0, 1)}">${status}</code> ${prose(description)}
    </summary>
    ${fields}${bodies}
  </details>`;
}
