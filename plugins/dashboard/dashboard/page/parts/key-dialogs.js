import { Dialog, FormDialog, openDialog, SecretDialog } from "./dialog.js";
import {
  CreditField,
  Field,
  InputField,
  readMilli,
  SelectField,
  WorkspaceSelect,
} from "./fields.js";
import { html } from "./html.js";

const defaultCapabilities = ["ledger:read", "platform:read", "docs:read", "inference"];

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

/** A repeated answer does not contain the secret, because only its hash is stored. */
function showSecret(secret, text, done) {
  const dialog =
    secret === undefined
      ? html`<${Dialog} title="The key exists already" onClose=${done}>
          ${(close) =>
            html`<p>
                This form was sent before, and the answer was lost. The text of the key cannot be
                shown again: rotate the key to get a new one.
              </p>
              <div class="dialog-end">
                <button type="button" class="primary" onClick=${close}>Close</button>
              </div>`}
        <//>`
      : html`<${SecretDialog} secret=${secret} onClose=${done}>
          ${text} Only its hash is stored, so it cannot be shown again.
        <//>`;
  openDialog(dialog);
}

export function CreateDialog({ session, done }) {
  const changeOf = (form) => ["keys", wantedKey(form, session)];
  const show = ({ secret, key }) =>
    showSecret(secret, `The key “${key.name}” is ready to use.`, done);
  const workspace = (attributes) =>
    html`<${WorkspaceSelect}
      first="Choose a workspace"
      name="workspace"
      required
      ...${attributes}
    />`;
  return html`<${FormDialog} title="New key" action="Create key" changeOf=${changeOf} done=${show}>
    ${session.scope === "platform" && html`<${Field} label="Workspace" control=${workspace} />`}
    <${InputField}
      label="Name"
      hint="Purpose or owner of the key"
      name="name"
      required
      maxlength="200"
    />
    <${KeyFields} capabilities=${session.capabilities} />
  <//>`;
}

/** `of`: the key to edit. Undefined for a new one. */
function KeyFields({ capabilities, of: key }) {
  const granted = key?.capabilities ?? defaultCapabilities;
  const lifetime = key === undefined ? lifetimes : [["keep", "as before"], ...lifetimes];
  return html`<fieldset>
      <legend>Capabilities</legend>
      <div class="checks">
        ${capabilities.map(
          (name) =>
            html`<label class="check">
              <input
                type="checkbox"
                name="capability"
                value=${name}
                defaultChecked=${granted.includes(name)}
              />
              <code>${name}</code>
            </label>`,
        )}
      </div>
    </fieldset>
    <div class="pair">
      <${CreditField}
        label="CU in 24 hours"
        hint="Leave empty for no limit"
        name="day"
        milli=${key?.cu_limit_24h_milli}
      />
      <${CreditField}
        label="CU in 30 days"
        hint="Leave empty for no limit"
        name="month"
        milli=${key?.cu_limit_30d_milli}
      />
    </div>
    <div class="pair">
      <${InputField}
        label="Requests per second"
        hint="Leave empty for the rate of the plan"
        name="rps"
        type="number"
        inputmode="decimal"
        min="0.001"
        step="any"
        defaultValue=${key?.rps_limit}
      />
      <${SelectField} label="Expires" name="life" options=${lifetime} />
    </div>
    <${InputField}
      label="Allowed addresses"
      hint="IP addresses or blocks. Leave empty to allow every address."
      name="addresses"
      placeholder="10.0.0.0/8, 2001:db8::/32"
      defaultValue=${key?.allowed_addresses?.join(", ")}
    />`;
}

export function EditDialog({ of: key, session, done }) {
  const changeOf = (form) => [`keys/${key.id}/edit`, changesOf(form)];
  return html`<${FormDialog}
    title=${`Edit ${titleOf(key)}`}
    action="Save"
    changeOf=${changeOf}
    done=${done}
  >
    <${InputField} label="Name" name="name" required maxlength="200" defaultValue=${key.name} />
    <${KeyFields} capabilities=${session.capabilities} of=${key} />
  <//>`;
}

export function RotateDialog({ of: key, done }) {
  const changeOf = (form) => [
    `keys/${key.id}/rotate`,
    { overlap_seconds: Number(form.get("overlap")) },
  ];
  const show = ({ secret }) => showSecret(secret, `This key replaces ${titleOf(key)}.`, done);
  return html`<${FormDialog}
    title=${`Rotate ${titleOf(key)}`}
    action="Rotate"
    changeOf=${changeOf}
    done=${show}
  >
    <p>This creates a new key with the same capabilities and limits.</p>
    <${SelectField} label="Keep the old key valid for" name="overlap" options=${overlaps} />
  <//>`;
}

export function RevokeDialog({ of: key, done }) {
  const changeOf = () => [`keys/${key.id}/revoke`, {}];
  return html`<${FormDialog}
    title=${`Revoke ${titleOf(key)}?`}
    action="Revoke"
    danger
    changeOf=${changeOf}
    done=${done}
  >
    <p>The key ends at once and cannot be restored. Requests with it are answered with 401.</p>
    <p><code>${key.id}</code></p>
  <//>`;
}

function titleOf({ id, name }) {
  return name === "" ? id : `“${name}”`;
}

/** Undefined for an empty field. Throws RangeError. */
function readFields(form) {
  const text = (name) => String(form.get(name) ?? "").trim();
  const given = (name, convert) => (text(name) === "" ? undefined : convert(text(name)));
  const capabilities = form.getAll("capability");
  if (capabilities.length === 0) throw new RangeError("select at least one capability");
  return {
    name: text("name"),
    capabilities,
    cu_limit_24h_milli: readMilli(form, "day"),
    cu_limit_30d_milli: readMilli(form, "month"),
    rps_limit: given("rps", Number),
    expires_in_seconds: given("life", (value) => (value === "keep" ? value : Number(value))),
    allowed_addresses: given("addresses", (list) =>
      list.split(/[\s,]+/).filter((each) => each !== ""),
    ),
  };
}

function wantedKey(form, session) {
  const workspace = String(form.get("workspace") ?? "");
  return {
    workspace_id: session.scope === "platform" ? workspace : session.workspace.id,
    ...readFields(form),
  };
}

/** An empty field removes its limit. */
function changesOf(form) {
  const { expires_in_seconds: life, ...fields } = readFields(form);
  const all = { ...fields, ...(life !== "keep" && { expires_in_seconds: life }) };
  return Object.fromEntries(Object.entries(all).map(([name, value]) => [name, value ?? null]));
}
