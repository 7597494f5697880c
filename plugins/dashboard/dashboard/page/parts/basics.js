import * as format from "./format.js";
import { html } from "./html.js";
import { linkTo } from "./router.js";

/** @typedef {import("./html.js").Children} Children */

/**
 * `aside`: element next to the heading.
 * @param {{ title: Children, aside?: Children, class?: string, children?: Children }} props
 */
export function Panel({ title, aside, class: kind = "", children }) {
  return html`<section class=${`panel ${kind}`}>
    <div class="panel-head">
      <h2>${title}</h2>
      ${aside}
    </div>
    ${children}
  </section>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty">
    <strong>${title}</strong>
    <p>${children}</p>
  </div>`;
}

export function Loading() {
  return html`<p class="loading">Loading…</p>`;
}

/** `meaning`: `ok`, `warn`, `bad` or `quiet`. */
export function Badge({ meaning, children }) {
  return html`<span class=${`badge ${meaning}`}>${children}</span>`;
}

/** A badge that is good or bad, with one of two texts. */
export function Check({ isGood, good, bad }) {
  return html`<${Badge} meaning=${isGood ? "ok" : "bad"}>${isGood ? good : bad}<//>`;
}

/** Reports that polling fails, while the view keeps its previous data. `error`: undefined if it works. */
export function ErrorLine({ error }) {
  return html`<p class="error-line" role="alert" hidden=${error === undefined}>
    ${error !== undefined && `Not up to date: ${error.message}. Trying again.`}
  </p>`;
}

export function Facts({ class: kind = "", children }) {
  return html`<dl class=${`facts ${kind}`}>${children}</dl>`;
}

/** @param {{ name: string, class?: string, children?: Children }} props `class`: `wide` for the whole width */
export function Fact({ name, class: kind, children }) {
  return html`<div class=${kind}>
    <dt>${name}</dt>
    <dd>${children}</dd>
  </div>`;
}

export function Icon({ path }) {
  return html`<svg viewBox="0 0 16 16" class="icon" aria-hidden="true"><path d=${path} /></svg>`;
}

/** `colour`: name of a custom property without its dashes. */
export function Swatch({ colour }) {
  return html`<i class="swatch" aria-hidden="true" style=${{ "--swatch": `var(--${colour})` }} />`;
}

/**
 * All amounts are in milli-CU. `limit`: undefined without a limit. `name`: of the limit, for screen readers.
 * @param {{ used: number, reserved?: number, limit: number | undefined, name: string }} props
 */
export function Use({ used, reserved = 0, limit, name }) {
  if (limit === undefined) return html`<span class="number">${format.cu(used)}</span>`;
  const full = limit === 0 ? 1 : Math.min(1, (used + reserved) / limit);
  return html`<span class="number"><b>${format.cu(used)}</b> of ${format.cu(limit)}</span>
    <span
      class=${`meter ${full >= 1 ? "bad" : full >= 0.8 ? "warn" : ""}`}
      role="meter"
      aria-label=${name}
      aria-valuemin="0"
      aria-valuemax=${limit}
      aria-valuenow=${Math.min(used, limit)}
      aria-valuetext=${`${format.cu(used)} of ${format.cu(limit)}`}
      style=${{ "--fill": full }}
    />`;
}

export function RefusedFile({ isRefused }) {
  return html`<p class="error-line" role="alert" hidden=${!isRefused}>
    ${
      isRefused &&
      html`pipeline.yaml was not loaded, because the file has faults. The gateway continues to serve
        the pipeline that it loaded before. <a href=${linkTo("pipeline")}>Show the faults</a>`
    }
  </p>`;
}

export function Bars({ children }) {
  return html`<ul class="bars">
    ${children}
  </ul>`;
}

/**
 * `fill`: 0 to 1. `meaning`: `warn` or `bad`. `note`: text below the value.
 * @param {{ fill: number, name: Children, value: Children, note: Children, meaning?: string }} props
 */
export function Bar({ fill, name, value, note, meaning }) {
  return html`<li class=${meaning} style=${{ "--fill": fill }}>
    <span>${name}</span>
    <span class="number"><b>${value}</b><small>${note}</small></span>
  </li>`;
}
