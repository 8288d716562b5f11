// A list that opens below its button, and closes with Esc and with a click elsewhere.

import { el } from "./dom.js";

/**
 * @param {HTMLElement} summary the button
 * @param {HTMLElement} list
 * @param {string} [kind] a class beside its own
 */
export function makeMenu(summary, list, kind = "") {
  const menu = el("details", { class: `menu ${kind}`.trim() }, summary, list);
  const close = (event) => {
    if (!menu.isConnected) return document.removeEventListener("click", close);
    if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
    return undefined;
  };
  document.addEventListener("click", close);
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    summary.focus();
  });
  return menu;
}
