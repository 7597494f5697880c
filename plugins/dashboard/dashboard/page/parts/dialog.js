/** The browser's own element keeps the focus inside and closes on Escape. */
import { ApiError, change, newFormKey } from "./api.js";
import { html, signal, useEffect, useId, useRef, useState } from "./html.js";

/** @typedef {import("./html.js").Children} Children */

/** The newest dialog is last. */
const shown = signal(/** @type {{ id: number, content: Children }[]} */ ([]));
let last = 0;

/**
 * `content`: a `Dialog`, or a component that renders one.
 * @param {Children} content
 */
export function openDialog(content) {
  shown.value = [...shown.value, { id: ++last, content }];
}

export function closeDialogs() {
  shown.value = [];
}

/** The page contains this component once. */
export function Dialogs() {
  return shown.value.map(({ id, content }) => html`<${Remover} key=${id} id=${id}>${content}<//>`);
}

/** Events of `close` do not bubble, so it captures them. */
function Remover({ id, children }) {
  const remove = () => {
    shown.value = shown.value.filter((each) => each.id !== id);
  };
  return html`<div onCloseCapture=${remove}>${children}</div>`;
}

/**
 * `keep`: true if Escape must not close it. `fromTop`: true for a long text, which is shown from its top. `onClose`:
 * called after it has closed. `children`: may be a function, which gets a function that closes.
 * @param {{
 *   title: Children,
 *   keep?: boolean,
 *   fromTop?: boolean,
 *   class?: string,
 *   onClose?: () => void,
 *   children: Children | ((close: () => void) => Children),
 * }} props
 */
export function Dialog({ title, keep = false, fromTop = false, class: kind, onClose, children }) {
  const id = useId();
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    element.current?.showModal();
    if (!fromTop) return;
    // The browser would focus the button at the end and scroll a long text down to it.
    element.current?.focus();
    element.current?.scrollTo(0, 0);
  }, []);
  const close = () => element.current?.close();
  return html`<dialog
    ref=${element}
    class=${kind}
    aria-labelledby=${id}
    tabindex=${fromTop ? -1 : undefined}
    onClose=${onClose}
    onCancel=${keep ? (event) => event.preventDefault() : undefined}
  >
    <h2 id=${id}>${title}</h2>
    ${typeof children === "function" ? children(close) : children}
  </dialog>`;
}

/**
 * A form that makes one change. It has a key, which makes a change that is sent twice happen once. `changeOf`: returns
 * the path and the body of the change; a RangeError is shown in the form. `done`: called with the answer.
 * @param {{
 *   title: Children,
 *   action: string,
 *   danger?: boolean,
 *   changeOf: (form: FormData) => [path: string, body: object],
 *   done: (answer: any) => void,
 *   children: Children,
 * }} props
 */
export function FormDialog({ title, action, danger = false, changeOf, done, children }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [once] = useState(newFormKey);
  const send = async (form, close) => {
    setBusy(true);
    setError("");
    try {
      const [path, body] = changeOf(new FormData(form));
      done(await change(path, body, once));
      close();
    } catch (thrown) {
      if (!(thrown instanceof ApiError) && !(thrown instanceof RangeError)) throw thrown;
      setError(`The change was not made: ${thrown.message}.`);
    } finally {
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title}>
    ${(close) =>
      html`<form
        method="post"
        onSubmit=${(event) => {
          event.preventDefault();
          void send(event.currentTarget, close);
        }}
      >
        ${children}
        <p class="field-error" role="alert">${error}</p>
        <div class="dialog-end">
          <button type="button" class="plain" onClick=${close}>Cancel</button>
          <button type="submit" class=${danger ? "danger" : "primary"} disabled=${isBusy}>
            ${action}
          </button>
        </div>
      </form>`}
  <//>`;
}

/** Escape does not close the dialog, because the key would be lost. */
export function SecretDialog({ secret, onClose, children }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [note, setNote] = useState("");
  useEffect(() => field.current?.focus(), []);
  const copy = async () => {
    field.current?.select();
    try {
      await navigator.clipboard.writeText(secret);
      setNote("Copied.");
    } catch {
      setNote("Press Ctrl+C to copy.");
    }
  };
  return html`<${Dialog} title="Save this key now" keep onClose=${onClose}>
    ${(close) => html`
      <p>${children}</p>
      <input
        class="secret"
        readonly
        value=${secret}
        aria-label="The new key"
        ref=${field}
        onFocus=${() => field.current?.select()}
      />
      <div class="dialog-end">
        <span class="hint" role="status">${note}</span>
        <button type="button" class="plain" onClick=${() => void copy()}>Copy</button>
        <button type="button" class="primary" onClick=${close}>I have saved it</button>
      </div>
    `}
  <//>`;
}
