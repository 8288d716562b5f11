// Runs before anything is drawn, so that a dark page never flashes white. Not a module for that reason.
(() => {
  const chosen = (() => {
    try {
      return localStorage.getItem("marcir:theme");
    } catch {
      return null; // storage is switched off: the system's choice holds
    }
  })();
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
