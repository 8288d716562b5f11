// The line above the images (which places, filters, export, legend) and the pages below them.

import { activeFilters } from "./filters.js";
import { byId, el, icon } from "./dom.js";
import { exportMenu } from "./exports.js";
import { makeMenu } from "./menu.js";
import { sortMenu } from "./sorting.js";
import { PLACE_FILTERS, isRandom, kindOf, whatPasses } from "./state.js";
import { MAY_SHARE, agreementBadge } from "./tile.js";
import { count } from "./format.js";

const SHARES_SHOWN = 6;

/** How many images there are; null where a threshold decides, or they are too many to count. */
const totalOf = (state, answer) =>
  kindOf(state) === null || state.min_similarity === null ? (answer.total ?? null) : null;

/** How many images there are in all; null where that is unknown. */
const sizeOf = (state, answer) =>
  isRandom(state) ? answer.total : answer.more ? totalOf(state, answer) : state.offset + answer.hits.length;

/** "1-60 of 2,099"; with a threshold the total is known on the last page only. */
function range(state, answer) {
  const first = state.offset + 1;
  const last = state.offset + answer.hits.length;
  if (!answer.hits.length) return "0 images";
  const shown = first === last ? count(first) : `${count(first)}–${count(last)}`;
  const known = sizeOf(state, answer);
  return known === null ? shown : `${shown} of ${count(known)}`;
}

/** Which images are shown, and of how many: "1-60 of 467 images that pass the filters". */
export function places(state, answer) {
  if (!answer.hits.length) return "0 images";
  const size = sizeOf(state, answer);
  const which = `${size === 1 ? "image" : "images"}${whatPasses(state, size)}`;
  if (!isRandom(state)) return `${range(state, answer)} ${which}`;
  const shown = answer.hits.length;
  return `${shown === answer.total ? count(shown) : `${count(shown)} of ${count(answer.total)}`} ${which}, at random`;
}

/**
 * @param {{go: Function, onFilters: () => void, onOther: () => void, mapSwitch: HTMLElement,
 *   density: HTMLElement}} acts `mapSwitch`: a button that is hidden where there is no map; `density`: slider and
 *   switch of the tiles
 */
export function makeToolbar({ go, onFilters, onOther, mapSwitch, density }) {
  const bar = byId("toolbar");
  const pager = byId("pager");
  let focused = "";

  /** Replaces the lines; the control that had the focus has it again, also after a wait. */
  function fill(...lines) {
    if (bar.contains(document.activeElement)) focused = document.activeElement.id;
    bar.replaceChildren(...lines.filter(Boolean));
    const again = focused && document.activeElement === document.body ? document.getElementById(focused) : null;
    again?.focus({ preventScroll: true });
    if (again) focused = "";
  }

  function showBar(state, answer, archive) {
    const asked = kindOf(state) !== null;
    const on =
      state.any.length +
      state.all.length +
      state.none.length +
      PLACE_FILTERS.filter((name) => state[name] !== null).length +
      (state.min_similarity !== null && asked ? 1 : 0);
    const tools = [
      el(
        "button",
        { class: "button narrow-filters", type: "button", on: { click: onFilters } },
        icon("filter"),
        on ? `Filters (${on})` : "Filters",
      ),
      sortMenu(state, archive, go),
      isRandom(state) &&
        answer.hits.length < answer.total &&
        el(
          "button",
          { class: "button", type: "button", id: "other", on: { click: onOther } },
          icon("shuffle"),
          "Other images",
        ),
      asked && answer.hits.length > 0 && exportMenu(state, answer, archive),
      mapSwitch,
      density,
    ];
    const level = byId("query").hidden && byId("welcome").hidden ? "h1" : "h2"; // one heading of the page
    fill(
      el(
        "div",
        { class: "toolbar-line" },
        el(level, { class: "places" }, places(state, answer)),
        el("div", { class: "tools" }, ...tools.filter(Boolean)),
      ),
      activeFilters(state, go),
      asked && answer.hits.length > 0 && about(answer, archive),
    );
  }

  function showPager(state, answer, archive) {
    const previous = Math.max(0, state.offset - state.limit);
    const next = state.offset + state.limit;
    const deepest = kindOf(state) !== null && next + state.limit > (archive.max_results ?? Infinity);
    const last = totalOf(state, answer) ?? Infinity;
    pager.hidden = isRandom(state) || (!answer.more && state.offset === 0);
    const button = (name, sign, offset, to, off) =>
      el(
        "button",
        {
          class: `button pager-${name.toLowerCase()}`,
          type: "button",
          disabled: off,
          on: { click: () => go({ ...state, offset }, { top: true }) },
        },
        sign === "left" && icon(sign),
        el("span", {}, name),
        !off && el("span", { class: "number muted" }, `${count(offset + 1)}–${count(to)}`),
        sign === "right" && icon(sign),
      );
    pager.replaceChildren(
      button(
        "Previous",
        "left",
        previous,
        Math.min(previous + state.limit, state.offset),
        state.offset === 0,
      ),
      el("span", { class: "pager-here" }, range(state, answer)),
      button("Next", "right", next, Math.min(next + state.limit, last), !answer.more || deepest),
      deepest && answer.more
        ? el(
            "p",
            { class: "muted small" },
            `This service shows the first ${count(next)} hits. Filters bring others up.`,
          )
        : "",
    );
  }

  return {
    show(state, answer, archive) {
      showBar(state, answer, archive);
      showPager(state, answer, archive);
    },
    /** While a search runs or after it has failed: only the filters. */
    bare(state, words) {
      pager.hidden = true;
      const filters = el(
        "button",
        { class: "button narrow-filters", type: "button", on: { click: onFilters } },
        icon("filter"),
        "Filters",
      );
      fill(
        el(
          "div",
          { class: "toolbar-line" },
          el("p", { class: "places muted" }, words),
          el("div", { class: "tools" }, filters, mapSwitch, density),
        ),
        activeFilters(state, go),
      );
    },
    page(step) {
      const button = pager.querySelector(step > 0 ? ".pager-next" : ".pager-previous");
      if (!pager.hidden && button && !button.disabled) button.click();
    },
  };
}

/** What the frames mean, and the labels of the hits: one line of two menus. */
function about(answer, archive) {
  const parts = [answer.query.labels.length > 0 && legend(archive), shares(answer.label_shares ?? {})];
  return el("div", { class: "about-hits" }, ...parts);
}

/** The share of the hits of this page that have each label. */
function shares(all) {
  const names = Object.keys(all).sort((a, b) => all[b] - all[a] || a.localeCompare(b));
  if (!names.length) return null;
  const percent = (name) => `${Math.round(100 * all[name])} %`;
  const first = names.slice(0, SHARES_SHOWN).map((name) => `${name} ${percent(name)}`);
  const item = (name) =>
    el(
      "li",
      {},
      el("span", { class: "share-name" }, name),
      el("span", { class: "number muted" }, percent(name)),
    );
  return makeMenu(
    el("summary", {}, el("span", {}, el("span", { class: "muted" }, "Labels among these: "), first.join(", "))),
    el("ul", {}, ...names.map(item)),
    "shares",
  );
}

const frameSample = (level) =>
  el("span", { class: "frame-sample", data: { agreement: level }, "aria-hidden": "true" });

function legend(archive) {
  const short = (level) => el("span", { class: "legend-short" }, frameSample(level), level);
  const entry = (level, words) => el("li", {}, frameSample(level), agreementBadge({ level, words }));
  return makeMenu(
    el("summary", {}, el("span", { class: "muted" }, "Frame:"), ...["all", "some", "none"].map(short)),
    el(
      "ul",
      {},
      entry("all", "all of the query's labels"),
      entry("some", "some of them"),
      entry("none", "none of the query's labels"),
      archive.labels.some(({ unknown }) => unknown) && entry("open", MAY_SHARE),
      el("li", { class: "legend-label" }, icon("check"), el("span", {}, "a label that the query has, too")),
    ),
    "legend",
  );
}
