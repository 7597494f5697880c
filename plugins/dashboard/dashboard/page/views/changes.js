import { Empty, ErrorLine, Loading, Panel } from "../parts/basics.js";
import { SearchField } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter, linkTo, queryOf, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 10_000;

const columns = [
  { title: "Time" },
  { title: "Change" },
  { title: "Author" },
  { title: "Workspace or key" },
  { title: "New values" },
];

export function ChangesView() {
  const [text, workspace, before] = [filter("q"), filter("workspace"), filter("before")];
  const query = queryOf({ q: text, workspace, before });
  const { data, error } = usePolled(`changes?${query}`, everyMs);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${SearchField}
        label="Search changes by author, action, id or value"
        placeholder="Author, action, value"
        value=${text}
        search=${(q) => setFilters({ q, before: "" })}
      />
      ${
        workspace !== "" &&
        html`<button
          type="button"
          class="plain"
          onClick=${() => setFilters({ workspace: "", before: "" })}
        >
          Only ${workspace.slice(0, 11)}: show all
        </button>`
      }
    </div>
    <${Panel} title="Changes"><${Changes} answer=${data} before=${before} /><//>
  </div>`;
}

function Changes({ answer, before }) {
  if (answer === undefined) return html`<${Loading} />`;
  const { changes, has_more: hasMore } = answer;
  if (changes.length === 0) {
    return html`<${Empty} title="No changes found">
      Each change of a workspace, a key or a price is recorded here.
    <//>`;
  }
  const rows = changes.map((each) => ({ key: String(each.id), cells: cellsOf(each) }));
  return html`<${Table} caption="Changes, newest first" columns=${columns} rows=${rows} />
    <nav class="pager" aria-label="Pages">
      <button
        type="button"
        class="plain"
        disabled=${before === ""}
        onClick=${() => setFilters({ before: "" })}
      >
        Newest
      </button>
      <button
        type="button"
        class="plain"
        disabled=${!hasMore}
        onClick=${() => setFilters({ before: String(changes.at(-1).id) })}
      >
        Older
      </button>
    </nav>`;
}

function cellsOf({ time, actor, action, workspace_id: workspace, key_id: key, details, ...more }) {
  return [
    html`<span class="number" title=${`Change ${more.id}, ${time}`}>${format.instant(time)}</span>`,
    html`<b>${action}</b>`,
    html`<code>${actor}</code>`,
    html`${
      workspace !== undefined &&
      html`<a href=${linkTo("changes", { workspace })}><code>${workspace}</code></a>`
    }
    ${key !== undefined && html`<code>${key}</code>`}`,
    html`<code class="wrap">${valuesOf(details)}</code>`,
  ];
}

/** Returns values such as `plan: startup, limit: none`. */
function valuesOf(details) {
  if (typeof details !== "object" || details === null) return JSON.stringify(details ?? null);
  return Object.entries(details)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
