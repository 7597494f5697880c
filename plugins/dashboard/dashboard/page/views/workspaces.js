import { Badge, Empty, ErrorLine, Loading, Panel, Use } from "../parts/basics.js";
import { openDialog } from "../parts/dialog.js";
import { OrderChoice, SearchField } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { Pager } from "../parts/pager.js";
import { usePolled } from "../parts/poll.js";
import { filter, linkTo, queryOf, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";
import {
  CancelDowngradeDialog,
  LimitDialog,
  NewWorkspaceDialog,
  PlanDialog,
  PurchaseDialog,
} from "../parts/workspace-dialogs.js";

const everyMs = 10_000;

const columns = [
  { title: "Workspace" },
  { title: "Plan" },
  { title: "Used this month", kind: "window" },
  { title: "Purchased credit left", number: true },
  { title: "Limit of overage", number: true },
  { title: "Created" },
  { title: "Actions" },
];

export function WorkspacesView({ session }) {
  const text = filter("q");
  const query = queryOf({ q: text, sort: filter("sort"), page: filter("page") });
  const { data, error, refresh } = usePolled(`workspaces?${query}`, everyMs);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${SearchField}
        label="Search workspaces by name or id"
        placeholder="Name or id"
        value=${text}
        search=${(q) => setFilters({ q, page: "" })}
      />
      <${OrderChoice} />
      ${
        session.may_change &&
        html`<button
          class="primary end"
          type="button"
          onClick=${() => openDialog(html`<${NewWorkspaceDialog} done=${refresh} />`)}
        >
          New workspace
        </button>`
      }
    </div>
    <${Panel} title="Workspaces">
      <${Workspaces} answer=${data} session=${session} done=${refresh} />
    <//>
  </div>`;
}

function Workspaces({ answer, session, done }) {
  if (answer === undefined) return html`<${Loading} />`;
  const { workspaces, page, has_more: hasMore, ordered_only: only } = answer;
  if (workspaces.length === 0 && page === 0) {
    return html`<${Empty} title="No workspaces found">
      Change the search, or create a new workspace.
    <//>`;
  }
  const rows = workspaces.map((each) => ({ key: each.id, cells: cellsOf(each, session, done) }));
  return html`<${Table} caption="Workspaces" columns=${columns} rows=${rows} />
    <${Pager} page=${page} hasMore=${hasMore} orderedOnly=${only} />`;
}

function cellsOf(workspace, session, done) {
  const { id, name, plan, pending_plan: pending, overage_limit_cu_milli: limit } = workspace;
  const action = (word, dialog) =>
    html`<button
      type="button"
      class="plain"
      aria-label=${`${word}: ${name}`}
      onClick=${() => openDialog(html`<${dialog} of=${workspace} done=${done} />`)}
    >
      ${word}
    </button>`;
  return [
    html`<a class="key-name" href=${linkTo("keys", { workspace: id })}>${name}</a>
      <code>${id}</code>`,
    html`<span>${plan}</span> ${
        pending !== undefined &&
        html`<${Badge} meaning="warn">
          ${pending} from ${format.day(workspace.pending_plan_at)}
        <//>`
      }`,
    html`<${Use}
      used=${workspace.used_cu_milli}
      limit=${workspace.limit_cu_milli}
      name="Credit used this month"
    />`,
    format.cu(workspace.purchased_cu_milli),
    limit === undefined ? "no limit" : format.cu(limit),
    html`<span class="number" title=${workspace.created_at}>
      ${format.day(workspace.created_at)}
    </span>`,
    html`<span class="actions">
      ${
        session.may_change &&
        html`${action("Plan", PlanDialog)} ${action("Credit", PurchaseDialog)}
        ${action("Limit", LimitDialog)}
        ${pending !== undefined && action("Keep plan", CancelDowngradeDialog)}`
      }
      <a
        class="button"
        href=${linkTo("changes", { workspace: id })}
        aria-label=${`Changes: ${name}`}
      >
        Changes
      </a>
    </span>`,
  ];
}
