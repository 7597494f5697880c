import { Empty, Icon } from "./basics.js";
import { html, useEffect, useErrorBoundary, useRef } from "./html.js";
import { linkTo, place, replaceView } from "./router.js";

/**
 * `key_id`, `key_name`: the key with which the user signed in. `subject`, `email`: the user of the OpenID provider.
 * `capabilities`: those that the user may grant to a key.
 *
 * @typedef {object} SignedIn
 * @property {string} [key_id]
 * @property {string} [key_name]
 * @property {string} [subject]
 * @property {string} [email]
 * @property {boolean} may_change
 * @property {string[]} capabilities
 * @property {string} environment
 */

/**
 * A session, which sees the whole deployment or one workspace.
 *
 * @typedef {SignedIn & (
 *   { scope: "platform" } | { scope: "workspace", workspace: { id: string, name: string } }
 * )} Session
 */

/**
 * @param {{ session: Session, views: typeof import("../views.js").views, signOut: () => void }} props
 */
export function Frame({ session, views, signOut }) {
  const shown = views.filter(
    ({ platform, changes }) =>
      (!platform || session.scope === "platform") && (!changes || session.may_change),
  );
  const open = shown.find(({ name }) => name === place.value.view) ?? shown[0];
  useEffect(() => {
    if (place.peek().view !== open.name) replaceView(open.name);
    document.title = `${open.title} · Sluice`;
    scrollTo(0, 0);
  }, [open.name]);
  return html`<header class="bar">
      <p class="mark">
        <img src="/dashboard/assets/icon.svg" alt="" width="24" height="24" />
        <span>Sluice</span>
        <span class=${`badge ${session.environment === "prod" ? "bad" : "quiet"}`}>
          ${session.environment}
        </span>
      </p>
      <nav aria-label="Views">
        ${shown.map((each) => html`<${ViewLink} key=${each.name} ...${each} isOpen=${each === open} />`)}
      </nav>
      <${Who} session=${session} signOut=${signOut} />
    </header>
    <main id="content" tabindex="-1">
      <h1 class="unseen" aria-live="polite">${open.title}</h1>
      <${Guard} key=${open.name}><${open.view} session=${session} /><//>
    </main>`;
}

/** On a phone, the navigation is scrolled sideways to the open view. */
function ViewLink({ name, title, isOpen }) {
  const link = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (isOpen) link.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [isOpen]);
  return html`<a ref=${link} href=${linkTo(name)} aria-current=${isOpen ? "page" : undefined}>
    ${title}
  </a>`;
}

/** @param {{ session: Session, signOut: () => void }} props */
function Who({ session, signOut }) {
  const { key_name: keyName, key_id: keyId, subject, email } = session;
  const id = keyId ?? subject;
  const sees = session.scope === "platform" ? "whole deployment" : session.workspace.name;
  return html`<div class="who">
    <span class="who-name" title=${id}>
      <span>${[keyName, email].find((name) => name) ?? id}</span>
      <small>${session.may_change ? sees : `${sees}, read only`}</small>
    </span>
    <button
      class="plain"
      type="button"
      aria-label="Switch between light and dark"
      onClick=${() => document.dispatchEvent(new CustomEvent("themetoggle"))}
    >
      <${Icon} path="M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11" />
    </button>
    <button class="plain" type="button" onClick=${signOut}>Sign out</button>
  </div>`;
}

/** A view that fails is replaced by a text, so that the navigation stays usable. */
function Guard({ children }) {
  const [error, retry] = useErrorBoundary((thrown) => reportError(thrown));
  if (error === undefined) return children;
  return html`<${Empty} title="This view has failed">
    The browser's console has the details.${" "}
    <button type="button" class="link" onClick=${retry}>Try again</button>
  <//>`;
}
