// The images, and moving over them with the arrow keys. The Tab key reaches one tile at a time.

import { byId, el } from "./dom.js";
import { tile } from "./tile.js";

export const MOVES = {
  ArrowLeft: (at) => at - 1,
  ArrowRight: (at) => at + 1,
  ArrowUp: (at, columns) => at - columns,
  ArrowDown: (at, columns) => at + columns,
  Home: () => 0,
  End: (at, columns, size) => size - 1,
};

/** The number of columns that tiles are in. @param {HTMLElement[]} tiles */
export function columnsOf(tiles) {
  const tops = tiles.map((each) => each.offsetTop);
  const second = tops.findIndex((top) => top > tops[0]);
  return second === -1 ? tops.length : second;
}

/**
 * @param {{hrefOf: Function, onSearch: Function, onMark: Function, onOpen: Function,
 *   selection: ReturnType<import("./selection.js").makeSelection>}} acts
 */
export function makeGrid({ hrefOf, onSearch, onMark, onOpen, selection }) {
  const grid = byId("grid");
  let current = 0;
  let focusPending = false; // the focus was on a tile that a search has removed

  const tiles = () => [...grid.querySelectorAll(".tile")];

  function setCurrent(index, { focus = false } = {}) {
    const all = tiles();
    current = Math.max(0, Math.min(index, all.length - 1));
    all.forEach((each, at) => {
      for (const part of each.querySelectorAll("a, button")) part.tabIndex = at === current ? 0 : -1;
    });
    if (focus) all[current]?.querySelector("a").focus();
  }

  function settle() {
    grid.classList.remove("fading");
    grid.removeAttribute("aria-busy");
  }

  grid.addEventListener("focusin", (event) => {
    const at = tiles().indexOf(event.target.closest(".tile"));
    if (at !== -1 && at !== current) setCurrent(at);
  });

  grid.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = tiles();
    const at = all.indexOf(event.target.closest(".tile"));
    const next = move(at, columnsOf(all), all.length);
    event.preventDefault(); // also at the edges, so that the page does not jump
    if (next < 0 || next >= all.length) return;
    if (event.shiftKey) selection.extend(all[next].dataset.id, all[at].dataset.id);
    setCurrent(next, { focus: true });
  });

  function showSelection() {
    grid.classList.toggle("selecting", !selection.isEmpty());
    for (const each of tiles()) {
      const on = selection.has(each.dataset.id);
      each.toggleAttribute("data-selected", on);
      each.querySelector(".check").setAttribute("aria-pressed", String(on));
    }
  }
  selection.onChange(showSelection);

  return {
    show(hits, { offset, query, pageLabels }) {
      const had =
        grid.contains(document.activeElement) || (focusPending && document.activeElement === byId("results"));
      focusPending = false;
      settle();
      const made = hits.map((hit, at) =>
        tile(hit, {
          place: hit.similarity === null ? null : offset + at + 1,
          query,
          pageLabels,
          href: hrefOf(hit.id),
          onSearch,
          onMark,
          onOpen,
          onSelect: (id, { range }) => (range ? selection.extend(id) : selection.toggle(id)),
          isSelecting: () => !selection.isEmpty(),
        }),
      );
      grid.replaceChildren(...made);
      showSelection();
      setCurrent(0, { focus: had });
    },

    /** Grey tiles for a new query; for the same query with other filters the old hits stay, faded. */
    loading(size, fresh) {
      grid.setAttribute("aria-busy", "true");
      if (!fresh && tiles().length) {
        grid.classList.add("fading");
        return;
      }
      if (grid.contains(document.activeElement)) {
        focusPending = true;
        byId("results").focus({ preventScroll: true });
      }
      const grey = () =>
        el(
          "li",
          { class: "skeleton", "aria-hidden": "true" },
          el("span", { class: "frame" }),
          el("span", { class: "line" }),
          el("span", { class: "line short" }),
        );
      grid.replaceChildren(...Array.from({ length: Math.min(size, 24) }, grey));
    },

    settle,

    clear() {
      settle();
      grid.replaceChildren();
    },

    /** Shows on every tile whether it is an example. */
    mark(markOf) {
      for (const each of tiles()) {
        const mark = markOf(each.dataset.id);
        each.dataset.mark = mark ?? "";
        each.querySelector(".mark-word").textContent = { like: "more like", unlike: "less like" }[mark] ?? "";
        for (const button of each.querySelectorAll("[data-mark]"))
          button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
      }
    },

    /** Focuses the first image of the next hits. */
    focusNext() {
      focusPending = true;
      byId("results").focus({ preventScroll: true });
    },

    /** Focuses the first visible image. */
    enter() {
      const head = document.querySelector(".top").getBoundingClientRect().bottom;
      const seen = tiles().findIndex((each) => each.getBoundingClientRect().top >= head);
      setCurrent(seen === -1 ? tiles().length - 1 : seen, { focus: true });
    },

    /** Focuses an image, where it is among those shown. */
    focus(id) {
      const at = tiles().findIndex((each) => each.dataset.id === id);
      if (at !== -1) setCurrent(at, { focus: true });
    },

    /** The images on the page, in their order. */
    ids: () => tiles().map((each) => each.dataset.id),

    focusedId: () => document.activeElement?.closest?.(".tile")?.dataset.id ?? null,
  };
}
