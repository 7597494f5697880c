/** Shows the document as a page: one HTML file without scripts, which includes its style. */
import type { OpenApiDocument } from "./document.ts";
import { html, inlineMarkup, type Markup } from "./markup.ts";
import type { Ref, ResponseObject } from "./objects.ts";
import { operationView, type Entry } from "./operation-view.ts";
import { schemaView } from "./schema-view.ts";
import { styleElement } from "./style.ts";

/** The operations of one tag. */
interface Group {
  readonly name: string;
  readonly description: string;
  readonly entries: readonly Entry[];
}

/** `source`: path of the document itself. */
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
        <p>${inlineMarkup(description)}</p>
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
    <p>${inlineMarkup(info.description)}</p>
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
