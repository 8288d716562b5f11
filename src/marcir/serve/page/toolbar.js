// The line above the images (which places, filters, export, legend) and the pages below them.

import { activeFilters } from "./filters.js";
import { byId, el, icon } from "./dom.js";
import { exportMenu } from "./exports.js";
import { hasFilter, kindOf, withChanges } from "./state.js";
import { MAY_SHARE, agreementBadge } from "./tile.js";
import { count, counted } from "./format.js";

const SHARES_SHOWN = 6;

/** "1-24 of 2,099"; with a threshold the total is known on the last page only. */
export function places(state, answer) {
  const first = state.offset + 1;
  const last = state.offset + answer.hits.length;
  if (!answer.hits.length) return "0 images";
  const range = first === last ? count(first) : `${count(first)}–${count(last)}`;
  const known = answer.more ? (state.min_similarity === null ? answer.total : null) : last;
  return known === null ? range : `${range} of ${count(known)}`;
}

/** @param {{go: Function, onFilters: () => void, onOther: () => void}} acts */
export function makeToolbar({ go, onFilters, onOther }) {
  const bar = byId("toolbar");
  const pager = byId("pager");

  function showBar(state, answer, archive) {
    const asked = kindOf(state) !== null;
    const on =
      state.any.length +
      state.all.length +
      state.none.length +
      (state.min_similarity !== null && asked ? 1 : 0);
    const heading = asked ? places(state, answer) : sampleWords(state, answer);
    const tools = [
      el(
        "button",
        { class: "button narrow-filters", type: "button", on: { click: onFilters } },
        icon("filter"),
        on ? `Filters (${on})` : "Filters",
      ),
      !asked &&
        answer.hits.length < answer.total &&
        el(
          "button",
          { class: "button", type: "button", id: "other", on: { click: onOther } },
          icon("shuffle"),
          "Other images",
        ),
      asked && answer.hits.length > 0 && exportMenu(state, answer, archive),
    ];
    const lines = [
      el(
        "div",
        { class: "toolbar-line" },
        el("h2", { class: "places" }, heading),
        el("div", { class: "tools" }, ...tools.filter(Boolean)),
      ),
      activeFilters(state, go),
      asked && shares(answer.label_shares ?? {}),
      asked && answer.hits.length > 0 && answer.query.labels.length > 0 && legend(archive),
    ];
    bar.replaceChildren(...lines.filter(Boolean));
  }

  const sampleWords = (state, answer) => {
    if (!answer.hits.length) return "0 images";
    const which = hasFilter(state) ? " that pass" : "";
    const shown = answer.hits.length;
    return (
      (shown === answer.total
        ? counted(shown, "image")
        : `${count(shown)} of ${counted(answer.total, "image")}`) + which
    );
  };

  function showPager(state, answer, archive) {
    const previous = Math.max(0, state.offset - state.limit);
    const next = state.offset + state.limit;
    const deepest = next + state.limit > (archive.max_results ?? Infinity);
    pager.hidden = kindOf(state) === null || (!answer.more && state.offset === 0);
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
      el("span", { class: "pager-here" }, places(state, answer)),
      button("Next", "right", next, next + state.limit, !answer.more || deepest),
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
      bar.replaceChildren(
        ...[
          el(
            "div",
            { class: "toolbar-line" },
            el("p", { class: "places muted" }, words),
            el("div", { class: "tools" }, filters),
          ),
          activeFilters(state, go),
        ].filter(Boolean),
      );
    },
    page(step) {
      const button = pager.querySelector(step > 0 ? ".pager-next" : ".pager-previous");
      if (!pager.hidden && button && !button.disabled) button.click();
    },
  };
}

/** The share of the hits of this page that have each label. */
function shares(all) {
  const names = Object.keys(all).sort((a, b) => all[b] - all[a] || a.localeCompare(b));
  if (!names.length) return null;
  const item = (name) =>
    el(
      "li",
      {},
      el("span", { class: "share-name" }, name),
      " ",
      el("span", { class: "number muted" }, `${Math.round(100 * all[name])} %`),
    );
  const rest = names.length - SHARES_SHOWN;
  return el(
    "div",
    { class: "shares" },
    el("span", { class: "muted" }, "Labels among these:"),
    el(
      "ul",
      {},
      ...names.slice(0, SHARES_SHOWN).map(item),
      rest > 0 && el("li", { class: "muted", title: names.slice(SHARES_SHOWN).join(", ") }, `+${rest}`),
    ),
  );
}

function legend(archive) {
  const entry = (level, words) =>
    el(
      "li",
      {},
      el("span", { class: "frame-sample", data: { agreement: level }, "aria-hidden": "true" }),
      agreementBadge({ level, words }),
    );
  return el(
    "div",
    { class: "legend" },
    el("span", { class: "muted" }, "Frame:"),
    el(
      "ul",
      {},
      entry("all", "all"),
      entry("some", "some"),
      entry("none", "none of the query's labels"),
      archive.labels.some(({ unknown }) => unknown) && entry("open", MAY_SHARE),
      el("li", { class: "legend-label" }, icon("check"), el("span", {}, "shared label")),
    ),
  );
}
