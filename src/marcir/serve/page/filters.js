// The side column: how similar a hit must be, and which labels it must have (any, all) or must not have
// (none). Rows are made once and then only updated, so that the focus stays where it is while counts change.

import { byId, el, screenReaderText } from "./dom.js";
import { filterChip } from "./filter-chip.js";
import { makePlaceFilters, placeChips } from "./map-filters.js";
import {
  FILTERS,
  filterOf,
  withLabelFilter,
  hasLabelFilter,
  kindOf,
  withChanges,
  withoutLabelFilter,
} from "./state.js";
import { makeThreshold } from "./threshold.js";
import { count, counted } from "./format.js";

const ROWS_AT_FIRST = 50;
const MEANINGS = {
  any: "at least one of the labels marked any",
  all: "every label marked all",
  none: "no label marked none",
};
const WORDS = "any: has one of these. all: has every one. none: has not.";

/** @param {{getState: () => import("./state.js").State, go: Function}} acts */
export function makeFilters({ getState, go }) {
  const rows = new Map();
  const find = el("input", {
    type: "search",
    class: "field",
    placeholder: "Find a label",
    "aria-label": "Find a label",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = el("ul", { class: "filter-list", "aria-label": "Labels; arrow keys move over them" });
  const showAll = el("button", { class: "button quiet", type: "button" });
  const passing = el("p", { class: "muted small" });
  const clear = el("button", { class: "button quiet", type: "button" }, "Clear");
  const unknownToo = el("input", { type: "checkbox", id: "none-unknown-ok" });
  const unknownPart = el(
    "div",
    { class: "unknown-too", hidden: true },
    unknownToo,
    el("label", { for: "none-unknown-ok" }, "none: also where unknown"),
  );
  const help = el("p", { class: "muted small" }, WORDS);
  const nothingFound = el("p", { class: "muted small", hidden: true }, "No label has this in its name.");
  const threshold = makeThreshold({ getState, go });
  const places = makePlaceFilters({ getState, go });
  let images = 0;
  let everything = false;

  function build(archive) {
    images = archive.images;
    for (const { name } of archive.labels) addRow(name);
    find.hidden = rows.size < 8;
    const labelled = [
      el("div", { class: "side-head" }, el("h2", {}, "Labels"), clear),
      passing,
      find,
      list,
      nothingFound,
      showAll,
      unknownPart,
      help,
    ];
    const unlabelled = [
      el("h2", {}, "Labels"),
      el(
        "p",
        { class: "muted small" },
        "No image of this archive has labels. marcir index --labels adds them.",
      ),
    ];
    byId("filters").replaceChildren(
      threshold.element,
      ...places.build(archive),
      el("section", { class: "side-part" }, ...(rows.size ? labelled : unlabelled)),
    );
    setCounts({ images: archive.images, labels: archive.labels });
  }

  function makeRow(name) {
    const number = el("span", { class: "number" });
    const unknown = el("span", { class: "unknown-number", hidden: true });
    const buttons = FILTERS.map((way) =>
      el(
        "button",
        {
          type: "button",
          class: `way way-${way}`,
          "aria-label": `${way}: ${name}`,
          "aria-pressed": "false",
          tabindex: "-1",
          title: `Only images with ${MEANINGS[way]}`.replace("with no label", "without any label"),
          data: { way },
          on: {
            click: () => go(withLabelFilter(getState(), name, filterOf(getState(), name) === way ? null : way)),
          },
        },
        way,
      ),
    );
    const share = el("span", { class: "share", "aria-hidden": "true" });
    const item = el(
      "li",
      { class: "filter-row" },
      share,
      el("span", { class: "filter-head" }, el("span", { class: "filter-name" }, name), number, unknown),
      el("span", { class: "ways", role: "group", "aria-label": name }, ...buttons),
    );
    return { name, item, number, unknown, share, buttons };
  }

  function addRow(name) {
    const row = makeRow(name);
    rows.set(name, row);
    list.append(row.item);
    return row;
  }

  function setCounts({ images: passed, labels }) {
    images = Math.max(images, passed); // the archive may have grown since the page was opened
    passing.textContent =
      passed === images
        ? `All ${counted(images, "image")} pass the filters`
        : `${count(passed)} of ${count(images)} pass the filters`;
    for (const { name, count: carried, unknown } of labels) {
      const row = rows.get(name) ?? addRow(name);
      row.number.textContent = count(carried);
      row.unknown.hidden = !unknown;
      row.unknown.title = `unknown for ${counted(unknown, "image")}`;
      row.unknown.replaceChildren(`${count(unknown)}?`, screenReaderText(" unknown"));
      if (unknown) showUnknown();
      row.item.classList.toggle("empty", carried === 0);
      row.share.style.setProperty("--share", String(images ? carried / images : 0));
    }
    narrow();
  }

  /** Shows what concerns unknown labels; most archives have none. */
  function showUnknown() {
    unknownPart.hidden = false;
    help.textContent = `${WORDS} Labels with a ? are unknown.`;
  }

  /** Shows the first rows, all of them, or those that contain the typed letters. */
  function narrow() {
    const typed = find.value.trim().toLocaleLowerCase();
    let shown = 0;
    let matching = 0;
    for (const row of rows.values()) {
      const matches = !typed || row.name.toLocaleLowerCase().includes(typed);
      matching += matches;
      row.item.hidden =
        !matches || (!everything && shown >= ROWS_AT_FIRST && !filterOf(getState(), row.name));
      shown += !row.item.hidden;
    }
    nothingFound.hidden = matching > 0;
    showAll.hidden = shown >= matching;
    showAll.textContent = `Show all ${count(matching)} labels`;
    rove();
  }

  const visible = () => [...rows.values()].filter((row) => !row.item.hidden);

  /** Makes one button of the list reachable with the Tab key. */
  function rove(chosen) {
    const buttons = visible().flatMap((row) => row.buttons);
    const kept = chosen ?? buttons.find((each) => each.tabIndex === 0) ?? buttons[0];
    for (const row of rows.values()) for (const each of row.buttons) each.tabIndex = each === kept ? 0 : -1;
  }

  list.addEventListener("focusin", (event) => event.target.matches(".way") && rove(event.target));
  list.addEventListener("keydown", (event) => {
    const shown = visible();
    const at = shown.findIndex((row) => row.item.contains(event.target));
    const column = FILTERS.indexOf(event.target.dataset.way);
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    shown[at + down]?.buttons[column + right]?.focus();
  });
  find.addEventListener("input", narrow);
  showAll.addEventListener("click", () => {
    everything = true;
    narrow();
  });
  unknownToo.addEventListener("change", () =>
    go(withChanges(getState(), { none_unknown_ok: unknownToo.checked })),
  );
  clear.addEventListener("click", () => go(withoutLabelFilter(getState())));

  return {
    build,
    setCounts,
    /** Follows the state of the page. */
    show(state) {
      for (const row of rows.values()) {
        const way = filterOf(state, row.name);
        row.item.dataset.way = way ?? "";
        for (const button of row.buttons)
          button.setAttribute("aria-pressed", String(button.dataset.way === way));
      }
      clear.hidden = !hasLabelFilter(state);
      unknownToo.checked = state.none_unknown_ok;
      unknownToo.disabled = !state.none.length;
      if (state.none_unknown_ok) showUnknown();
      threshold.show(state);
      places.show(state);
      narrow();
    },
  };
}

/** The active filters above the images, each with a button that removes it. */
export function activeFilters(state, go) {
  const named = (way) => (way === "none" && state.none_unknown_ok ? "none or unknown" : way);
  const chips = FILTERS.flatMap((way) =>
    state[way].map((label) =>
      filterChip(label, () => go(withLabelFilter(state, label, null)), { way, name: named(way) }),
    ),
  );
  chips.push(...placeChips(state, go));
  if (state.min_similarity !== null && kindOf(state))
    chips.push(
      filterChip(`similarity at least ${state.min_similarity}`, () =>
        go(withChanges(state, { min_similarity: null })),
      ),
    );
  return chips.length
    ? el("ul", { class: "active-filters", "aria-label": "Filters that are on" }, ...chips)
    : null;
}
