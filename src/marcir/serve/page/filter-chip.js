// A filter that is on, as a button that removes it.

import { el, icon, screenReaderText } from "./dom.js";

/**
 * @param {string} words
 * @param {() => void} off
 * @param {{way: string, name: string}|null} [list] of labels that the filter is in, and how it is called
 */
export function filterChip(words, off, list = null) {
  const about = {
    class: list ? `chip chip-${list.way}` : "chip",
    type: "button",
    title: "Remove this filter",
    on: { click: off },
  };
  return el(
    "li",
    {},
    el(
      "button",
      about,
      list && el("span", { class: "chip-way" }, list.name),
      el("span", { class: "chip-name" }, words),
      screenReaderText("remove this filter"),
      icon("close"),
    ),
  );
}
