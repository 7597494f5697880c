import { ask, ApiError } from "./parts/api.js";
import { closeDialogs, Dialogs } from "./parts/dialog.js";
import { Frame } from "./parts/frame.js";
import { html, render, signal } from "./parts/html.js";
import { views } from "./views.js";
import { SignIn } from "./views/sign-in.js";

/** @typedef {import("./parts/frame.js").Session} Session */

/** Undefined until the session has been read. */
const shown = signal(
  /** @type {{ session?: Session, note?: string, oidc?: { name: string } } | undefined} */ (
    undefined
  ),
);

/** `note`: shown in the sign-in form if the user is not signed in. */
async function begin(note) {
  closeDialogs();
  try {
    const session = await ask("session");
    shown.value = session.signed_in ? { session } : { note, oidc: session.oidc };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    shown.value = { note: `The session could not be checked: ${error.message}.` };
  }
  if (shown.value.session === undefined) document.title = "Sign in · Sluice";
}

async function signOut() {
  try {
    await ask("session", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
  await begin("You are signed out.");
}

function App() {
  if (shown.value === undefined) return null;
  const { session, note, oidc } = shown.value;
  if (session === undefined) {
    return html`<${SignIn} key=${note} note=${note} oidc=${oidc} entered=${begin} />`;
  }
  return html`<${Frame} session=${session} views=${views} signOut=${() => void signOut()} />`;
}

// The target of the skip link is in the open view.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content")?.focus();
});
document.addEventListener("signedout", () => void begin("Your session has ended. Sign in again."));
render(html`<${App} /><${Dialogs} />`, document.body.appendChild(document.createElement("div")));
void begin();
