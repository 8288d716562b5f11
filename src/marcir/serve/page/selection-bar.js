// The bar at the lower edge while images are selected: how many, and what can be done with them.

import { byId, el, icon } from "./dom.js";
import { count, counted } from "./format.js";
import { announce, notice } from "./notices.js";
import { idRef } from "./query-images.js";
import { hasFilter, whatPasses, withQuery } from "./state.js";

/** Examples of one search; more of them go through a collection. */
const MAX_EXAMPLES = 50;

/**
 * @typedef {object} Action
 * @property {string} sign name of its icon
 * @property {() => string|null} words of its button; null where it is not offered
 * @property {() => void} act
 */

/**
 * @param {{getState: () => import("./state.js").State, go: Function, getPassing: () => number|null,
 *   selection: ReturnType<import("./selection.js").makeSelection>}} acts `getPassing`: how many images pass the
 *   filters; null while they are counted
 */
export function makeSelectionBar({ getState, go, getPassing, selection }) {
  const bar = byId("selection");
  const number = el("strong", { class: "number" });
  const all = el("button", { class: "button quiet", type: "button", id: "select-all" });
  const clear = el(
    "button",
    { class: "icon-button", type: "button", "aria-label": "Clear the selection", title: "Clear the selection (Esc)" },
    icon("close"),
  );
  const buttons = el("div", { class: "selection-acts" });
  /** @type {{action: Action, button: HTMLElement, text: HTMLElement}[]} */
  const actions = [];
  all.addEventListener("click", () => selection.addAllThatPass(getPassing()));
  clear.addEventListener("click", selection.clear);
  bar.append(clear, el("p", { class: "selection-words" }, number, all), buttons);

  function show() {
    bar.hidden = selection.isEmpty();
    if (bar.hidden) return;
    const passing = getPassing();
    number.textContent = `${count(selection.size())} selected`;
    all.hidden = passing === null || selection.isFilter() || selection.size() >= passing;
    if (!all.hidden)
      all.textContent = hasFilter(getState())
        ? `Select all ${count(passing)}${whatPasses(getState(), passing)}`
        : `Select all ${counted(passing, "image")}`;
    for (const { action, button, text } of actions) {
      const words = action.words();
      button.hidden = words === null;
      text.textContent = button.title = words ?? "";
    }
  }

  function moreLikeThese() {
    const ids = selection.ids();
    if (selection.isFilter() || ids.length > MAX_EXAMPLES) {
      notice(
        `A search takes up to ${MAX_EXAMPLES} images as examples. Add these to a collection, and search with it.`,
      );
      return;
    }
    go(withQuery(getState(), ids.length === 1 ? { id: ids[0] } : { like: ids.map(idRef) }), { top: true });
    selection.clear();
  }

  /** Adds a button. @param {Action} action */
  function addAction(action) {
    const text = el("span", {});
    const button = el("button", { class: "button", type: "button", on: { click: action.act } }, icon(action.sign), text);
    actions.push({ action, button, text });
    buttons.append(button);
    show();
  }

  addAction({ sign: "search", words: () => "More like these", act: moreLikeThese });
  selection.onChange(() => {
    show();
    announce(selection.isEmpty() ? "Nothing is selected." : `${counted(selection.size(), "image")} selected.`);
  });
  return { addAction, show };
}
