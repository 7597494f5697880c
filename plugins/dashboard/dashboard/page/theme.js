/* This file is not a module, so that it runs before painting. */
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

  document.addEventListener("themetoggle", () => {
    const isDark = root.dataset.theme === undefined ? dark.matches : root.dataset.theme === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem(name, root.dataset.theme);
    } catch {
      // Without storage, the choice is lost when the page is closed.
    }
    changed();
  });
})();
