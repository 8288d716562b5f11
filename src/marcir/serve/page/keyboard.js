// Keyboard shortcuts, and the table that lists them.

import { byId, el, icon } from "./dom.js";

const TABLE = [
  ["← ↑ → ↓", "move over the images; Home and End to the first and the last"],
  ["Enter", "search with the image"],
  ["o or Space", "details of the image"],
  ["+ or m", "more like the image"],
  ["- or l", "less like the image"],
  ["s", "search with the examples"],
  ["x", "select the image; Shift and arrows extend the selection"],
  ["Ctrl A", "select all images of the page"],
  ["c", "add the selected images to a collection"],
  ["d", "dense: only images"],
  ["t", "label the images one by one, with the keys 1 to 9 (where labels may be changed)"],
  ["n, p", "next, previous page"],
  ["/", "search by label"],
  ["g", "to the map, where arrows move and + and - zoom; back to the images"],
  ["a, r, s", "suggestions: accept, reject, skip the image"],
  ["u, n", "suggestions: undo; learn again"],
  ["← ↑ → ↓, +, -, 0", "similarity map: move, zoom, show everything"],
  ["Enter, Space", "similarity map: details of the image in the middle; select it"],
  ["r", "similarity map: a rectangle; Shift and arrows change its size, Enter selects what is in it"],
  ["Ctrl V", "search with an image from the clipboard"],
  ["Esc", "close what is open, then clear the selection, then the examples"],
  ["?", "these shortcuts"],
];

/** Whether an element takes letters; sliders, buttons and links do not. */
const isTyping = (target) => target.matches?.("textarea, select, [contenteditable], input:not([type=range])");

/** @param {Record<string, Function>} acts */
export function listen({ grid, tray, selection, labelField, onOpen, onPage, onMap, onCollect, onDense, onLabel }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("shortcuts"));
  const help = () => {
    dialog.replaceChildren(
      el(
        "button",
        {
          class: "icon-button close",
          type: "button",
          "aria-label": "Close",
          on: { click: () => dialog.close() },
        },
        icon("close"),
      ),
      el("h2", { id: "shortcuts-name" }, "Keyboard shortcuts"),
      el(
        "table",
        {},
        el(
          "tbody",
          {},
          ...TABLE.map(([keys, words]) =>
            el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, keys)), el("td", {}, words)),
          ),
        ),
      ),
    );
    dialog.showModal();
  };
  byId("help").addEventListener("click", help);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  const mark = (way) => grid.focusedId() !== null && tray.mark(grid.focusedId(), way);
  const open = () => grid.focusedId() !== null && onOpen(grid.focusedId());
  const keys = {
    "/": labelField.focus,
    "?": help,
    "+": () => mark("like"),
    "=": () => mark("like"),
    m: () => mark("like"),
    "-": () => mark("unlike"),
    l: () => mark("unlike"),
    o: open,
    s: tray.search,
    g: onMap,
    n: () => onPage(1),
    p: () => onPage(-1),
    x: () => grid.focusedId() !== null && selection.toggle(grid.focusedId()),
    c: onCollect,
    d: onDense,
    t: onLabel,
    Escape: () => (selection.isEmpty() ? tray.clear() : selection.clear()),
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return; // a dialog has keys of its own
    if (event.ctrlKey || event.metaKey) {
      if (event.key !== "a" || !grid.ids().length) return;
      event.preventDefault();
      selection.add(grid.ids());
      return;
    }
    const space = event.key === " " && event.target.matches(".tile-link");
    const enter = event.key?.startsWith("Arrow") && [document.body, byId("results")].includes(event.target);
    const act = space ? open : enter ? grid.enter : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
