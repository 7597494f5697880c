/** The line that says what does not work; what was shown before stays. */
import { h } from "./dom.js";

export function errorLine() {
  const text = h("span", {});
  const element = h("p", { class: "trouble", role: "alert", hidden: true }, text);
  return {
    element,
    /** Undefined: it works again. */
    show: (error) => {
      element.hidden = error === undefined;
      if (error === undefined) return;
      text.textContent = `Not up to date: ${error.message}. It is tried again.`;
    },
  };
}
