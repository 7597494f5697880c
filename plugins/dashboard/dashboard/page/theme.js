/* Light or dark as the system has it, unless the reader chose. Not a module: it runs before anything is drawn. */
(() => {
  const name = "sluice-theme";
  const root = document.documentElement;
  const read = () => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  const kept = read();
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const changed = () => document.dispatchEvent(new CustomEvent("themechange"));
  dark.addEventListener("change", changed);

  /** Asked by the page: the other one from now on. */
  document.addEventListener("themetoggle", () => {
    const isDark = root.dataset.theme === undefined ? dark.matches : root.dataset.theme === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem(name, root.dataset.theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    changed();
  });
})();
