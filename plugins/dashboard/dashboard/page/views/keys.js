import { Badge, Empty, ErrorLine, Loading, Panel, Use } from "../parts/basics.js";
import { openDialog } from "../parts/dialog.js";
import { Choice, OrderChoice, SearchField, WorkspaceSelect } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html } from "../parts/html.js";
import { CreateDialog, EditDialog, RevokeDialog, RotateDialog } from "../parts/key-dialogs.js";
import { Pager } from "../parts/pager.js";
import { usePolled } from "../parts/poll.js";
import { filter, queryOf, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 5_000;
/** Charges that leave a window within this time are shown as one. */
const soonMs = 300_000;
/** A key that expires within a week is highlighted. */
const warnedMs = 7 * 86_400_000;

const states = [
  ["active", "Active"],
  ["all", "All"],
];

export function KeysView({ session }) {
  const isPlatform = session.scope === "platform";
  const [text, workspace, state] = [filter("q"), filter("workspace"), filter("state", "active")];
  const query = queryOf({ state, sort: filter("sort"), page: filter("page"), q: text, workspace });
  const { data, error, refresh } = usePolled(`keys?${query}`, everyMs);
  const create = () => openDialog(html`<${CreateDialog} session=${session} done=${refresh} />`);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${SearchField}
        label="Search keys by name or id"
        placeholder="Name or id"
        value=${text}
        search=${(q) => setFilters({ q, page: "" })}
      />
      ${
        isPlatform &&
        html`<${WorkspaceSelect}
          aria-label="Workspace"
          value=${workspace}
          onChange=${({ currentTarget }) => setFilters({ workspace: currentTarget.value, page: "" })}
        />`
      }
      <${Choice}
        label="State"
        options=${states}
        chosen=${state}
        name="state"
        reset=${{ page: "" }}
      />
      <${OrderChoice} />
      ${
        session.may_change &&
        html`<button class="primary end" type="button" onClick=${create}>New key</button>`
      }
    </div>
    <${Panel} title="Keys">
      ${
        data === undefined
          ? html`<${Loading} />`
          : html`<${Keys} answer=${data} session=${session} done=${refresh} />`
      }
    <//>
  </div>`;
}

function Keys({ answer: { keys, page, has_more: hasMore, ordered_only: only }, session, done }) {
  const isPlatform = session.scope === "platform";
  if (keys.length === 0 && page === 0) {
    return html`<${Empty} title="No keys found">Change the search, or create a new key.<//>`;
  }
  const columns = [
    { title: "Key" },
    ...(isPlatform ? [{ title: "Workspace" }] : []),
    { title: "24 hours", kind: "window" },
    { title: "30 days", kind: "window" },
    { title: "Last used" },
    { title: "Actions" },
  ];
  const rows = keys.map((key) => ({ key: key.id, cells: cellsOf(key, session, done) }));
  return html`<${Table} caption="Keys" columns=${columns} rows=${rows} />
    <${Pager} page=${page} hasMore=${hasMore} orderedOnly=${only} />`;
}

function cellsOf(key, session, done) {
  const { id, name, windows } = key;
  const title = name === "" ? id : name;
  return [
    html`<span class="key-name">${title} <${Mark} of=${key} /></span>
      ${name !== "" && html`<code>${id}</code>`}
      <small class="quiet wrap">${key.capabilities.join(" ")}</small>`,
    ...(session.scope === "platform"
      ? [html`<span>${key.workspace_name}</span><code>${key.workspace_id.slice(0, 11)}</code>`]
      : []),
    html`<${Window} window=${windows["24h"]} name="Credit used within 24 hours" />`,
    html`<${Window} window=${windows["30d"]} name="Credit used within 30 days" />`,
    html`<span class="number" title=${key.last_used_at}>${lastUse(key)}</span>`,
    html`<${Actions} of=${key} title=${title} session=${session} done=${done} />`,
  ];
}

function Actions({ of: key, title, session, done }) {
  if (key.state !== "active") return html`<span class="quiet">${format.none}</span>`;
  if (!session.may_change) return html`<span class="quiet">read only</span>`;
  if (!key.manageable) return html`<span class="quiet">needs platform:admin</span>`;
  const action = (word, dialog) =>
    html`<button
      type="button"
      class="plain"
      aria-label=${`${word} ${title}`}
      onClick=${() => openDialog(html`<${dialog} of=${key} session=${session} done=${done} />`)}
    >
      ${word}
    </button>`;
  return html`<span class="actions">
    ${action("Edit", EditDialog)} ${key.rotated_to === undefined && action("Rotate", RotateDialog)}
    ${action("Revoke", RevokeDialog)}
  </span>`;
}

/** Uses are stored once per minute, so a key with a charge but without a stored use was used just now. */
function lastUse({ last_used_at: at, windows }) {
  if (at !== undefined) return format.relative(at);
  return windows["30d"].used_cu_milli > 0 ? "just now" : "never";
}

function Mark({ of: key }) {
  const { state, expires_at: expiresAt, rotated_to: rotatedTo, revoked_at: revokedAt } = key;
  if (state === "revoked") {
    return html`<${Badge} meaning="bad">revoked ${format.moment(revokedAt)}<//>`;
  }
  if (state === "expired") {
    return html`<${Badge} meaning="quiet">expired ${format.moment(expiresAt)}<//>`;
  }
  if (expiresAt === undefined) return null;
  const isSoon = Date.parse(expiresAt) - Date.now() < warnedMs;
  return html`<${Badge} meaning=${isSoon ? "warn" : "quiet"}>
    ${rotatedTo === undefined ? "expires" : "replaced, expires"} ${format.relative(expiresAt)}
  <//>`;
}

function Window({ window, name }) {
  const { used_cu_milli: used, limit_cu_milli: limit, reserved_cu_milli: reserved } = window;
  return html`<${Use} used=${used} reserved=${reserved} limit=${limit} name=${name} />
    ${clears(window).map((text) => html`<small class="quiet">${text}</small>`)}`;
}

/** Returns one time per line. */
function clears({ room_at: roomAt, frees_at: freesAt, empty_at: emptyAt }) {
  if (roomAt !== undefined) return [`full until ${format.moment(roomAt)}`];
  if (freesAt === undefined) return ["no usage"];
  const end = `all free from ${format.moment(emptyAt)}`;
  if (Date.parse(emptyAt) - Date.parse(freesAt) < soonMs) return [end];
  return [`frees up from ${format.moment(freesAt)}`, end];
}
