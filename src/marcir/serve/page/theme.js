// Runs before anything is drawn, so that a dark page does not flash white: therefore not a module.
(() => {
  const chosen = (() => {
    try {
      return localStorage.getItem("marcir:theme");
    } catch {
      return null; // storage is disabled: the system decides
    }
  })();
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
