/** Preact with templates (htm) instead of JSX, so that the page needs no build. Text never becomes markup. */
import htm from "../lib/htm.js";
import { h } from "../lib/preact.js";

/** @typedef {import("../lib/preact.js").ComponentChildren} Children What an element can contain. */

export const html = htm.bind(h);

export { render } from "../lib/preact.js";
export { useEffect, useErrorBoundary, useId, useMemo, useRef, useState } from "../lib/hooks.js";
export { signal } from "../lib/signals.js";
