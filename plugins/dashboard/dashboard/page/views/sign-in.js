/** Sends the key once, without storing it. */
import { ask, ApiError } from "../parts/api.js";
import { html, useEffect, useRef, useState } from "../parts/html.js";

/** `note`: why the form is shown. `oidc`: the provider, if there is one. `entered`: called when the session starts. */
export function SignIn({ note, oidc, entered }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [error, setError] = useState(note ?? "");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => field.current?.focus(), []);
  const attempt = async (work) => {
    setBusy(true);
    setError("");
    try {
      await work();
    } catch (thrown) {
      if (!(thrown instanceof ApiError)) throw thrown;
      const code = thrown.status >= 500 ? ` (${thrown.code})` : "";
      setError(`Not signed in: ${thrown.message}${code}.`);
      field.current?.select();
    } finally {
      setBusy(false);
    }
  };
  const submit = () =>
    attempt(async () => {
      const input = field.current;
      if (input === null) return;
      await ask("session", { method: "POST", body: { key: input.value.trim() } });
      input.value = "";
      await entered();
    });
  const leave = () =>
    attempt(async () => {
      const { url } = await ask("session/oidc", { method: "POST" });
      location.assign(url);
    });
  // Password managers store the key under the name in the hidden field.
  return html`<main id="content" class="door" tabindex="-1">
    <form
      class="sign-in"
      method="post"
      onSubmit=${(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <input type="text" autocomplete="username" value="sluice" hidden readonly />
      <h1>Sluice</h1>
      <p class="quiet">Sign in to see what the gateway does.</p>
      <label for="key">API key</label>
      <input
        id="key"
        type="password"
        name="key"
        autocomplete="current-password"
        spellcheck=${false}
        autocapitalize="off"
        required
        placeholder="gateway_…"
        aria-describedby="key-hint key-error"
        ref=${field}
      />
      <p id="key-hint" class="hint">
        The key needs the capability <code>platform:admin</code>, or${" "}
        <code>workspace:admin</code> to see one workspace. The browser does not store the key.
      </p>
      <p id="key-error" class="field-error" role="alert">${error}</p>
      <button class="primary" type="submit" disabled=${isBusy}>Sign in</button>
      ${
        oidc !== undefined &&
        html`<p class="or">or</p>
          <button type="button" class="plain" disabled=${isBusy} onClick=${() => void leave()}>
            Sign in with ${oidc.name}
          </button>`
      }
    </form>
  </main>`;
}
