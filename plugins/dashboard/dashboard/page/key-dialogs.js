/** Dialogs to create, rotate and revoke keys. */
import { ask } from "./api.js";
import { field, formDialog, secretDialog } from "./dialog.js";
import { h } from "./dom.js";
import { workspaceSelect } from "./usage.js";

const defaultCapabilities = ["ledger:read", "platform:read", "docs:read", "inference"];
const notShownAgain = "Only its hash is stored, so it cannot be shown again.";

const lifetimes = [
  ["", "never"],
  ["3600", "in 1 hour"],
  ["86400", "in 1 day"],
  ["2592000", "in 30 days"],
  ["7776000", "in 90 days"],
  ["31536000", "in 1 year"],
];

const overlaps = [
  ["86400", "24 hours"],
  ["0", "0 seconds (it ends at once)"],
  ["3600", "1 hour"],
  ["604800", "7 days"],
];

export function createDialog(session, done) {
  const isPlatform = session.scope === "platform";
  const workspace = isPlatform ? workspaceSelect(() => {}, "Choose a workspace") : undefined;
  if (workspace !== undefined) {
    workspace.name = "workspace";
    workspace.required = true;
    workspace.removeAttribute("aria-label");
  }
  const boxes = session.capabilities.map((name) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        name: "capability",
        value: name,
        checked: defaultCapabilities.includes(name),
      }),
      h("code", {}, name),
    ),
  );
  formDialog({
    title: "New key",
    action: "Create key",
    fields: [
      workspace === undefined ? undefined : field("Workspace", workspace),
      field(
        "Name",
        h("input", { name: "name", required: true, maxlength: 200, autocomplete: "off" }),
        "Purpose or owner of the key",
      ),
      h("fieldset", {}, h("legend", {}, "Capabilities"), h("div", { class: "checks" }, ...boxes)),
      h(
        "div",
        { class: "pair" },
        field("CU in 24 hours", amount("day"), "Leave empty for no limit"),
        field("CU in 30 days", amount("month"), "Leave empty for no limit"),
      ),
      h(
        "div",
        { class: "pair" },
        field(
          "Requests per second",
          number("rps", "0.001"),
          "Leave empty for the rate of the plan",
        ),
        field("Expires", select("life", lifetimes)),
      ),
      field(
        "Allowed addresses",
        h("input", {
          name: "addresses",
          autocomplete: "off",
          placeholder: "10.0.0.0/8, 2001:db8::/32",
        }),
        "IP addresses or blocks. Leave empty to allow every address.",
      ),
    ].filter((each) => each !== undefined),
    async submit(form) {
      const body = wanted(form, session);
      const { secret, key } = await ask("keys", { method: "POST", body });
      secretDialog(secret, `The key “${key.name}” is ready to use. ${notShownAgain}`, done);
    },
  });
}

export function rotateDialog(key, done) {
  formDialog({
    title: `Rotate ${titleOf(key)}`,
    action: "Rotate",
    fields: [
      h("p", {}, "This creates a new key with the same capabilities and limits."),
      field("Keep the old key valid for", select("overlap", overlaps)),
    ],
    async submit(form) {
      const body = { overlap_seconds: Number(form.get("overlap")) };
      const { secret } = await ask(`keys/${key.id}/rotate`, { method: "POST", body });
      secretDialog(secret, `This key replaces ${titleOf(key)}. ${notShownAgain}`, done);
    },
  });
}

export function revokeDialog(key, done) {
  formDialog({
    title: `Revoke ${titleOf(key)}?`,
    action: "Revoke",
    danger: true,
    fields: [
      h(
        "p",
        {},
        "The key ends at once and cannot be restored. Requests with it are answered with 401.",
      ),
      h("p", {}, h("code", {}, key.id)),
    ],
    async submit() {
      await ask(`keys/${key.id}/revoke`, { method: "POST", body: {} });
      done();
    },
  });
}

function titleOf({ id, name }) {
  return name === "" ? id : `“${name}”`;
}

function select(name, options) {
  return h("select", { name }, ...options.map(([value, text]) => h("option", { value }, text)));
}

function number(name, step) {
  return h("input", { name, type: "number", min: step, step: "any", inputmode: "decimal" });
}

function amount(name) {
  return h("input", { name, type: "number", min: 0, step: "0.001", inputmode: "decimal" });
}

/** Converts the form to the API's input: amounts in milli-CU, without empty fields. Throws RangeError. */
function wanted(form, session) {
  const text = (name) => String(form.get(name) ?? "").trim();
  const given = (name, convert) => (text(name) === "" ? undefined : convert(text(name)));
  const capabilities = form.getAll("capability");
  if (capabilities.length === 0) throw new RangeError("select at least one capability");
  const milli = (value) => Math.round(Number(value) * 1000);
  return {
    workspace_id: session.scope === "platform" ? text("workspace") : session.workspace.id,
    name: text("name"),
    capabilities,
    cu_limit_24h_milli: given("day", milli),
    cu_limit_30d_milli: given("month", milli),
    rps_limit: given("rps", Number),
    expires_in_seconds: given("life", Number),
    allowed_addresses: given("addresses", (list) =>
      list.split(/[\s,]+/).filter((each) => each !== ""),
    ),
  };
}
