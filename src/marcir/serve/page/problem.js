// What stands where the images would be when there are none: nothing found, or something went wrong; and a
// way on.

import { byId, el, icon } from "./dom.js";
import { hasFilter, kindOf, narrowed, withoutFilter } from "./state.js";

/** @param {{go: Function, onAgain: () => void, onHome: () => void}} acts */
export function makeProblem({ go, onAgain, onHome }) {
  const place = byId("problem");
  const way = (words, act, primary = false) =>
    el("button", { class: primary ? "button primary" : "button", type: "button", on: { click: act } }, words);

  function show(sign, heading, text, ways, alarming = false) {
    place.hidden = false;
    if (alarming) place.setAttribute("role", "alert");
    else place.removeAttribute("role");
    place.replaceChildren(
      icon(sign),
      el("h2", {}, heading),
      el("p", {}, text),
      el("div", { class: "problem-acts" }, ...ways.filter(Boolean)),
    );
  }

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
          [way("Look again", onAgain)],
        );
      const threshold = state.min_similarity !== null && kindOf(state) !== null;
      const why =
        threshold && hasFilter(state)
          ? "No image passes both the label filter and the threshold."
          : threshold
            ? `No image is as similar as ${state.min_similarity}.`
            : hasFilter(state)
              ? "No image passes the label filter."
              : state.offset
                ? "The hits end before this page."
                : "There is no other image to compare with.";
      return show("search", "Nothing found", why, [
        state.offset > 0 && way("First page", () => go({ ...state, offset: 0 }), true),
        threshold && way("Without the threshold", () => go(narrowed(state, { min_similarity: null }))),
        hasFilter(state) && way("Without the label filter", () => go(withoutFilter(state))),
        kindOf(state) !== null && way("New search", onHome),
      ]);
    },

    failed(error, state) {
      // Asking the same again would not help.
      const ours = error.status >= 400 && error.status < 500 && error.status !== 408;
      const heading =
        error.status === 0
          ? "No answer"
          : error.status === 404
            ? "Not in the archive"
            : ours
              ? "This cannot be searched"
              : "The service has a problem";
      show(
        "alert",
        heading,
        error.message,
        [
          (!ours || kindOf(state) === null) && way("Try again", onAgain, true),
          ours && hasFilter(state) && way("Without the label filter", () => go(withoutFilter(state))),
          kindOf(state) !== null && way("New search", onHome, ours),
        ],
        true,
      );
    },
  };
}
