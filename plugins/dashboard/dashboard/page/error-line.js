/** Creates a line that shows the last error of polling. The view keeps its previous data. */
import { h } from "./dom.js";

export function errorLine() {
  const text = h("span", {});
  const element = h("p", { class: "error-line", role: "alert", hidden: true }, text);
  return {
    element,
    /** `error`: undefined when polling works again. */
    show: (error) => {
      element.hidden = error === undefined;
      if (error === undefined) return;
      text.textContent = `Not up to date: ${error.message}. Trying again.`;
    },
  };
}
