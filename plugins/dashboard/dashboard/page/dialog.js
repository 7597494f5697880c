/** Dialogs, with the browser's own element, which keeps the focus inside and closes on Escape. */
import { ApiError } from "./api.js";
import { h } from "./dom.js";

let last = 0;

/** Opens a dialog with this content. It is removed from the page when it closes. */
export function openDialog(title, ...children) {
  const id = `dialog-${++last}`;
  const dialog = h(
    "dialog",
    { "aria-labelledby": id, onclose: () => dialog.remove() },
    h("h2", { id }, title),
    ...children,
  );
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Opens a form in a dialog. `submit`: performs the action; its errors are shown in the form.
 * @param {{ title: string, fields: Node[], action: string, danger?: boolean, submit: (form: FormData) => Promise<void>
 * }} options
 */
export function formDialog({ title, fields, action, danger, submit }) {
  const error = h("p", { class: "field-error", role: "alert" });
  const button = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
  const send = async () => {
    button.disabled = true;
    error.textContent = "";
    try {
      await submit(new FormData(form));
      dialog.close();
    } catch (thrown) {
      if (!(thrown instanceof ApiError) && !(thrown instanceof RangeError)) throw thrown;
      error.textContent = `The change was not made: ${thrown.message}.`;
    } finally {
      button.disabled = false;
    }
  };
  const form = h(
    "form",
    {
      method: "post",
      onsubmit(event) {
        event.preventDefault();
        void send();
      },
    },
    ...fields,
    error,
    h(
      "div",
      { class: "dialog-end" },
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
      button,
    ),
  );
  const dialog = openDialog(title, form);
  return dialog;
}

/** Shows a new key, which is shown only once. Escape does not close the dialog, because the key would be lost. */
export function secretDialog(secret, words, closed) {
  const text = h("input", {
    class: "secret",
    readonly: true,
    value: secret,
    "aria-label": "The new key",
    onfocus: () => text.select(),
  });
  const copied = h("span", { class: "hint", role: "status" });
  const copy = async () => {
    text.select();
    try {
      await navigator.clipboard.writeText(secret);
      copied.textContent = "Copied.";
    } catch {
      copied.textContent = "Press Ctrl+C to copy.";
    }
  };
  const dialog = openDialog(
    "Save this key now",
    h("p", {}, words),
    text,
    h(
      "div",
      { class: "dialog-end" },
      copied,
      h("button", { type: "button", class: "plain", onclick: () => void copy() }, "Copy"),
      h(
        "button",
        { type: "button", class: "primary", onclick: () => dialog.close() },
        "I have saved it",
      ),
    ),
  );
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("close", () => {
    text.value = "";
    closed();
  });
  text.focus();
}

/** Creates a field with a label. `hint`: description of valid values. */
export function field(label, control, hint) {
  const id = `field-${++last}`;
  control.id = id;
  const note =
    hint === undefined ? undefined : h("small", { id: `${id}-hint`, class: "hint" }, hint);
  if (note !== undefined) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, note);
}
