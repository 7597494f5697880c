/** The page: the sign-in form, or the frame with its views. */
import { ask, ApiError } from "./api.js";
import { h, icon, replace } from "./dom.js";
import { healthView } from "./health.js";
import { keysView } from "./keys.js";
import { liveView } from "./live.js";
import { pipelineView } from "./pipeline.js";
import { signInView } from "./sign-in.js";
import { usageView } from "./usage.js";

/** `platform`: true if the view shows data of the whole deployment. */
const views = [
  { name: "live", title: "Live", make: liveView, platform: false },
  { name: "usage", title: "Usage", make: usageView, platform: false },
  { name: "keys", title: "Keys", make: keysView, platform: false },
  { name: "health", title: "Health", make: healthView, platform: true },
  { name: "pipeline", title: "Pipeline", make: pipelineView, platform: true },
];

const app = document.body.appendChild(h("div", {}));
let view;
let leave = () => {};

async function begin(note) {
  leave();
  try {
    const session = await ask("session");
    if (session.signed_in) frame(session);
    else showSignIn(note);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showSignIn(`The session could not be checked: ${error.message}.`);
  }
}

function showSignIn(note) {
  document.title = "Sign in · Sluice";
  app.replaceChildren(signInView(begin, note));
  document.getElementById("key")?.focus();
}

function frame(session) {
  const shown = views.filter(({ platform }) => !platform || session.scope === "platform");
  const links = shown.map(({ name, title }) => ({
    name,
    link: h("a", { href: `#${name}` }, title),
  }));
  const content = h("main", { id: "content", tabindex: "-1" });
  const open = () => {
    const wanted = location.hash.slice(1);
    if (wanted === "content") return;
    const { name, title, make } = shown.find((each) => each.name === wanted) ?? shown[0];
    for (const { name: each, link } of links) {
      if (each === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${title} · Sluice`;
    view?.stop();
    view = make(session);
    replace(content, h("h1", { class: "unseen" }, title), view.element);
    globalThis.scrollTo(0, 0);
  };
  const signOut = async () => {
    try {
      await ask("session", { method: "DELETE" });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
    await begin("You are signed out.");
  };
  app.replaceChildren(header(session, links, signOut), content);
  addEventListener("hashchange", open);
  leave = () => {
    removeEventListener("hashchange", open);
    view?.stop();
    view = undefined;
    leave = () => {};
  };
  open();
}

function header(session, links, signOut) {
  const { environment, key_name: keyName, key_id: keyId, workspace, scope } = session;
  return h(
    "header",
    { class: "bar" },
    h(
      "p",
      { class: "mark" },
      h("img", { src: "/dashboard/assets/icon.svg", alt: "", width: 24, height: 24 }),
      h("span", {}, "Sluice"),
      h("span", { class: `badge ${environment === "prod" ? "bad" : "quiet"}` }, environment),
    ),
    h("nav", { "aria-label": "Views" }, ...links.map(({ link }) => link)),
    h(
      "div",
      { class: "who" },
      h(
        "span",
        { class: "who-name", title: keyId },
        h("span", {}, keyName === "" ? keyId : keyName),
        h("small", {}, scope === "platform" ? "whole deployment" : workspace.name),
      ),
      h(
        "button",
        {
          class: "plain",
          type: "button",
          "aria-label": "Switch between light and dark",
          onclick: () => document.dispatchEvent(new CustomEvent("themetoggle")),
        },
        icon("M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11"),
      ),
      h("button", { class: "plain", type: "button", onclick: () => void signOut() }, "Sign out"),
    ),
  );
}

// The target of the skip link is in the open view.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("content")?.focus();
});
document.addEventListener("signedout", () => void begin("Your session has ended. Sign in again."));
void begin();
