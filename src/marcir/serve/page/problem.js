// The message in place of the images where there are none: nothing found, or an error; with what can be done.

import { byId, el, icon } from "./dom.js";
import {
  hasFilter,
  hasLabelFilter,
  hasPlaceFilter,
  kindOf,
  withChanges,
  withoutLabelFilter,
  withoutPlaceFilter,
} from "./state.js";

/** @param {{go: Function, onAgain: () => void, onHome: () => void}} acts */
export function makeProblem({ go, onAgain, onHome }) {
  const place = byId("problem");
  const button = (words, act, primary = false) =>
    el("button", { class: primary ? "button primary" : "button", type: "button", on: { click: act } }, words);

  function show(sign, heading, text, buttons, alarming = false) {
    place.hidden = false;
    if (alarming) place.setAttribute("role", "alert");
    else place.removeAttribute("role");
    place.replaceChildren(
      icon(sign),
      el("h2", {}, heading),
      el("p", {}, text),
      el("div", { class: "problem-acts" }, ...buttons.filter(Boolean)),
    );
  }

  /** Buttons that leave the filters out. */
  const lessFiltered = (state, primary = false) => [
    hasLabelFilter(state) && button("Without the label filter", () => go(withoutLabelFilter(state))),
    state.collection !== null &&
      button("Without the collection", () => go(withChanges(state, { collection: null })), primary),
    hasPlaceFilter(state) && button("Everywhere, at any time", () => go(withoutPlaceFilter(state))),
  ];

  return {
    hide() {
      place.hidden = true;
      place.replaceChildren();
    },

    nothing(state, archive) {
      if (!archive.images)
        return show(
          "image",
          "This archive has no images yet",
          "marcir index puts a folder of images into it. Then load this page again.",
          [button("Look again", onAgain)],
        );
      const threshold = state.min_similarity !== null && kindOf(state) !== null;
      const filter = hasPlaceFilter(state) || state.collection !== null ? "filters" : "label filter";
      const why =
        threshold && hasFilter(state)
          ? `No image passes both the ${filter} and the threshold.`
          : threshold
            ? `No image is as similar as ${state.min_similarity}.`
            : hasFilter(state)
              ? `No image passes the ${filter}.`
              : state.offset
                ? "The hits end before this page."
                : "There is no other image to compare with.";
      return show("search", "Nothing found", why, [
        state.offset > 0 && button("First page", () => go({ ...state, offset: 0 }), true),
        threshold && button("Without the threshold", () => go(withChanges(state, { min_similarity: null }))),
        ...lessFiltered(state),
        kindOf(state) !== null && button("New search", onHome),
      ]);
    },

    failed(error, state) {
      const refused = error.isRefusal === true; // not for an error of the page itself
      const less = lessFiltered(state, kindOf(state) === null).filter(Boolean);
      const heading =
        error.status === 0
          ? "No answer"
          : error.status === 404
            ? "Not found"
            : refused
              ? "This cannot be searched"
              : "The service has a problem";
      show(
        "alert",
        heading,
        error.message,
        [
          !refused && button("Try again", onAgain, true),
          ...(refused ? less : []),
          kindOf(state) !== null && button("New search", onHome, refused),
          refused && kindOf(state) === null && !less.length && button("Try again", onAgain),
        ],
        true,
      );
    },
  };
}
