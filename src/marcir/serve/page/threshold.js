// The minimum similarity of hits.

import { el } from "./dom.js";
import { kindOf, withChanges } from "./state.js";

/** The slider for min_similarity. */
export function makeThreshold({ getState, go }) {
  const slider = el("input", {
    type: "range",
    id: "threshold",
    min: "0",
    max: "1",
    step: "0.01",
    "aria-describedby": "threshold-help",
  });
  const output = el("output", { for: "threshold", class: "number" });
  const write = (value) => {
    output.textContent = value ? value.toFixed(2) : "off";
    slider.setAttribute("aria-valuetext", value ? `at least ${value.toFixed(2)}` : "off");
    slider.style.setProperty("--filled", `${100 * value}%`);
  };
  let timer = 0;
  slider.addEventListener("input", () => {
    const value = Number(slider.value);
    write(value);
    clearTimeout(timer);
    // Searches when the slider stops.
    timer = setTimeout(
      () => go(withChanges(getState(), { min_similarity: value || null }), { sameStep: "threshold" }),
      200,
    );
  });
  const element = el(
    "section",
    { class: "side-part" },
    el(
      "div",
      { class: "side-head" },
      el("h2", {}, el("label", { for: "threshold" }, "Similarity at least")),
      output,
    ),
    slider,
    el("p", { class: "muted small", id: "threshold-help" }, "Hides images that are less similar."),
  );
  return {
    element,
    show(state) {
      const value = state.min_similarity ?? 0;
      element.hidden = kindOf(state) === null; // there is no similarity without a query
      slider.value = String(value);
      write(value);
    },
  };
}
