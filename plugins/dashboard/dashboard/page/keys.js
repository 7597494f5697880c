/** The view Keys: the usage of their windows, and actions on them. */
import { poll } from "./api.js";
import { badge, choice, empty, h, panel, replace, row, table } from "./dom.js";
import * as format from "./format.js";
import { createDialog, revokeDialog, rotateDialog } from "./key-dialogs.js";
import { errorLine } from "./error-line.js";
import { workspaceSelect } from "./usage.js";

const everyMs = 5_000;
const typingMs = 250;
/** Charges that leave a window within this time are shown as one. */
const soonMs = 300_000;
/** A key that expires within a week is highlighted. */
const warnedMs = 7 * 86_400_000;

export function keysView(session) {
  const isPlatform = session.scope === "platform";
  const state = { text: "", workspace: "", state: "active" };
  const columns = [
    { title: "Key" },
    ...(isPlatform ? [{ title: "Workspace" }] : []),
    { title: "24 hours", kind: "window" },
    { title: "30 days", kind: "window" },
    { title: "Last used" },
    { title: "Actions" },
  ];
  const error = errorLine();
  const { element, body } = table("Keys, newest first", columns, []);
  const note = h("div", {}, h("p", { class: "loading" }, "Loading…"));
  element.hidden = true;

  const took = ({ keys, truncated }) => {
    element.hidden = keys.length === 0;
    replace(body, ...keys.map((key) => keyRow(columns, key, isPlatform, again)));
    if (keys.length === 0)
      replace(note, empty("No keys found", "Change the search, or create a new key."));
    else
      replace(
        note,
        truncated
          ? h(
              "p",
              { class: "hint" },
              "Only the newest 100 keys are shown. Use the search to find others.",
            )
          : "",
      );
  };
  const path = () => {
    const query = new URLSearchParams({ state: state.state });
    if (state.text !== "") query.set("q", state.text);
    if (state.workspace !== "") query.set("workspace", state.workspace);
    return `keys?${query}`;
  };
  const polling = poll(everyMs, path, took, error.show);
  const again = () => void polling.now();
  return {
    element: h(
      "div",
      { class: "view" },
      error.element,
      h(
        "div",
        { class: "tools" },
        searchField((text) => {
          state.text = text;
          again();
        }),
        isPlatform &&
          workspaceSelect((id) => {
            state.workspace = id;
            again();
          }),
        choice(
          "State",
          [
            ["active", "Active"],
            ["all", "All"],
          ],
          state.state,
          (wanted) => {
            state.state = wanted;
            again();
          },
        ),
        h(
          "button",
          { class: "primary end", type: "button", onclick: () => createDialog(session, again) },
          "New key",
        ),
      ),
      panel("Keys", {}, element, note),
    ),
    stop: polling.stop,
  };
}

function searchField(search) {
  let timer;
  const field = h("input", {
    type: "search",
    placeholder: "Name or id",
    "aria-label": "Search keys by name or id",
    maxlength: 100,
    oninput() {
      clearTimeout(timer);
      timer = setTimeout(() => search(field.value.trim()), typingMs);
    },
  });
  return field;
}

function keyRow(columns, key, isPlatform, again) {
  const { id, name, state } = key;
  const isActive = state === "active";
  const title = name === "" ? id : name;
  const action = (word, dialog) =>
    h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-label": `${word} ${title}`,
        data: { focus: `${word} ${id}` },
        onclick: () => dialog(key, again),
      },
      word,
    );
  const canRotate = key.rotated_to === undefined;
  const actions = isActive && key.manageable;
  return row(columns, [
    [
      h("span", { class: "key-name" }, title, ...marks(key)),
      name !== "" && h("code", {}, id),
      h("small", { class: "quiet wrap" }, key.capabilities.join(" ")),
    ],
    ...(isPlatform
      ? [[h("span", {}, key.workspace_name), h("code", {}, shortId(key.workspace_id))]]
      : []),
    windowCell(key.windows["24h"], "24 hours"),
    windowCell(key.windows["30d"], "30 days"),
    h("span", { class: "number", title: key.last_used_at }, lastUse(key)),
    actions
      ? h(
          "span",
          { class: "actions" },
          canRotate && action("Rotate", rotateDialog),
          action("Revoke", revokeDialog),
        )
      : h("span", { class: "quiet" }, isActive ? "needs platform:admin" : format.none),
  ]);
}

/** Uses are stored once per minute, so a key with a charge but without a stored use was used just now. */
function lastUse({ last_used_at: at, windows }) {
  if (at !== undefined) return format.relative(at);
  return windows["30d"].used_cu_milli > 0 ? "just now" : "never";
}

/** Returns badges for the special states of a key. */
function marks({ state, expires_at: expiresAt, rotated_to: rotatedTo, revoked_at: revokedAt }) {
  if (state === "revoked") return [badge("bad", `revoked ${format.moment(revokedAt)}`)];
  if (state === "expired") return [badge("quiet", `expired ${format.moment(expiresAt)}`)];
  if (expiresAt === undefined) return [];
  const word = rotatedTo === undefined ? "expires" : "replaced, expires";
  const isSoon = Date.parse(expiresAt) - Date.now() < warnedMs;
  return [badge(isSoon ? "warn" : "quiet", `${word} ${format.relative(expiresAt)}`)];
}

function windowCell(window, name) {
  const { used_cu_milli: used, limit_cu_milli: limit, reserved_cu_milli: reserved } = window;
  if (limit === undefined) {
    return [h("span", { class: "number" }, format.cu(used)), ...clears(window)];
  }
  const full = limit === 0 ? 1 : Math.min(1, (used + reserved) / limit);
  const meter = h("span", {
    class: `meter ${full >= 1 ? "bad" : full >= 0.8 ? "warn" : ""}`,
    role: "meter",
    "aria-label": `Credit used within ${name}`,
    "aria-valuemin": 0,
    "aria-valuemax": limit,
    "aria-valuenow": Math.min(used, limit),
    "aria-valuetext": `${format.cu(used)} of ${format.cu(limit)}`,
    fill: full,
  });
  return [
    h("span", { class: "number" }, h("b", {}, format.cu(used)), ` of ${format.cu(limit)}`),
    meter,
    ...clears(window),
  ];
}

/** Returns the times at which a window frees up, one per line. */
function clears({ room_at: roomAt, frees_at: freesAt, empty_at: emptyAt }) {
  if (roomAt !== undefined) return lines(`full until ${format.moment(roomAt)}`);
  if (freesAt === undefined) return lines("no usage");
  const end = `empty from ${format.moment(emptyAt)}`;
  if (Date.parse(emptyAt) - Date.parse(freesAt) < soonMs) return lines(end);
  return lines(`frees up from ${format.moment(freesAt)}`, end);
}

function lines(...texts) {
  return texts.map((text) => h("small", { class: "quiet" }, text));
}

function shortId(id) {
  return id.slice(0, 11);
}
