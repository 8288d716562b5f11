// The switch for the theme: light, dark, or as the system.

import { byId, icon } from "./dom.js";

const ORDER = ["auto", "light", "dark"];
const SIGNS = { auto: "auto", light: "sun", dark: "moon" };

export function makeThemeSwitch() {
  const button = byId("theme");
  const chosen = () => document.documentElement.dataset.theme ?? "auto";

  function write() {
    const words = `Theme: ${chosen()}`;
    button.setAttribute("aria-label", words);
    button.title = words;
    button.replaceChildren(icon(SIGNS[chosen()]));
  }

  button.addEventListener("click", () => {
    const next = ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === "auto") localStorage.removeItem("marcir:theme");
      else localStorage.setItem("marcir:theme", next);
    } catch {
      // storage is disabled: the choice is kept until the page is reloaded
    }
    write();
  });
  write();
}
