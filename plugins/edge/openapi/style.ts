/** The style of the page, for light and dark mode and for phones. */
import { createHash } from "node:crypto";
import { Markup } from "./markup.ts";

const style = `
:root { color-scheme: light dark; --text: #1c2024; --soft: #60646c; --line: #d9d9e0; --back: #fcfcfd; --raised: #f2f3f5; --link: #0b58a8;
  --get: #11663b; --post: #0b58a8; --put: #8a4b00; --delete: #a8210f; }
@media (prefers-color-scheme: dark) { :root { --text: #edeef0; --soft: #b0b4ba; --line: #363a3f; --back: #111113; --raised: #1c1d20; --link: #7cc0ff;
  --get: #6fd39b; --post: #7cc0ff; --put: #ffb86b; --delete: #ff9585; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; display: grid; grid-template-columns: 20rem minmax(0, 1fr); background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); font-size: 0.875rem; }
nav h2 { margin: 1rem 0 0.25rem; font-size: 0.8rem; color: var(--soft); }
nav ul { margin: 0; padding: 0; list-style: none; }
nav a { display: grid; grid-template-columns: 4em 1fr; align-items: baseline; padding: 0.15rem 0; color: inherit; text-decoration: none; overflow-wrap: anywhere; }
nav a:hover, h3 a:hover { text-decoration: underline; }
main { max-width: 56rem; padding: 1.5rem 2rem 6rem; }
h1 { margin: 0 0 1rem; line-height: 1.2; } h1 small { font-size: 1rem; font-weight: normal; color: var(--soft); }
h2 { margin: 2.5rem 0 0; font-size: 1.35rem; } h3 { font-size: 1.05rem; overflow-wrap: anywhere; } h4 { margin: 1rem 0 0.25rem; }
h3 a { color: inherit; text-decoration: none; }
a { color: var(--link); } a:focus-visible, summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: 1rem; background: var(--back); padding: 0.5rem; z-index: 1; }
article { margin: 1rem 0; padding: 0 1rem 1rem; border: 1px solid var(--line); border-radius: 0.5rem; }
article:target { border-color: var(--link); }
p { margin: 0.4rem 0; } code { font: 0.875em ui-monospace, monospace; overflow-wrap: anywhere; }
pre { margin: 0.25rem 0; padding: 0.6rem 0.75rem; overflow-x: auto; background: var(--raised); border-radius: 0.35rem; } pre code { overflow-wrap: normal; }
.method { display: inline-block; min-width: 3.6em; font: 700 0.75rem ui-monospace, monospace; color: var(--soft); }
.get { color: var(--get); } .post { color: var(--post); } .put, .patch { color: var(--put); } .delete { color: var(--delete); }
.status { font-weight: 700; } .s2 { color: var(--get); } .s4 { color: var(--put); } .s5 { color: var(--delete); }
.members, .choices { margin: 0.25rem 0; padding: 0 0 0 0.75rem; list-style: none; border-left: 2px solid var(--line); }
.members > li { padding: 0.25rem 0; } .members p { margin: 0; color: var(--soft); font-size: 0.9rem; }
.name { font-weight: 600; } .type { color: var(--soft); font-size: 0.85rem; overflow-wrap: anywhere; }
.required { color: var(--delete); font-size: 0.8rem; }
details { padding: 0.2rem 0; } summary { cursor: pointer; } details > :not(summary), details > .members, details > .choices { margin-left: 1rem; }
@media (max-width: 48rem) { body { display: block; } nav { position: static; height: auto; max-height: 40vh; border-right: 0;
  border-bottom: 1px solid var(--line); } main { padding: 1rem; } }
`;

/** The style element. Its content must be exactly the text whose hash is in the policy. */
export const styleElement = new Markup(`<style>${style}</style>`);

/** The hash of the style as a source of `style-src` (CSP level 3, section 2.3.1). */
export const styleSource = `'sha256-${createHash("sha256").update(style).digest("base64")}'`;
