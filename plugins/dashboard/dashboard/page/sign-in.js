/** The sign-in form: asks for a key and sends it once, without storing it. */
import { ask, ApiError } from "./api.js";
import { h } from "./dom.js";

/** `entered`: called when the session has started. */
export function signInView(entered, note) {
  const field = h("input", {
    id: "key",
    type: "password",
    name: "key",
    autocomplete: "current-password",
    spellcheck: "false",
    autocapitalize: "off",
    required: true,
    placeholder: "gateway_…",
    "aria-describedby": "key-hint key-error",
  });
  const error = h("p", { id: "key-error", class: "field-error", role: "alert" }, note ?? "");
  const button = h("button", { class: "primary", type: "submit" }, "Sign in");
  const form = h(
    "form",
    {
      class: "sign-in",
      method: "post",
      onsubmit(event) {
        event.preventDefault();
        void submit();
      },
    },
    // Password managers store the key under this name.
    h("input", {
      type: "text",
      autocomplete: "username",
      value: "sluice",
      hidden: true,
      readonly: true,
    }),
    h("h1", {}, "Sluice"),
    h("p", { class: "quiet" }, "Sign in to see what the gateway does."),
    h("label", { for: "key" }, "API key"),
    field,
    h(
      "p",
      { id: "key-hint", class: "hint" },
      "The key needs the capability ",
      h("code", {}, "platform:admin"),
      ", or ",
      h("code", {}, "workspace:admin"),
      " to see one workspace. The browser does not store the key.",
    ),
    error,
    button,
  );
  const submit = async () => {
    button.disabled = true;
    error.textContent = "";
    const key = field.value.trim();
    try {
      await ask("session", { method: "POST", body: { key } });
      field.value = "";
      await entered();
    } catch (thrown) {
      if (!(thrown instanceof ApiError)) throw thrown;
      error.textContent = `Not signed in: ${thrown.message}.`;
      field.select();
    } finally {
      button.disabled = false;
    }
  };
  return h("main", { id: "content", class: "door", tabindex: "-1" }, form);
}
