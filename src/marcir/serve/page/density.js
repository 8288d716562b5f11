// How large the tiles are, and whether they show only the image (dense). The browser keeps the choice.

import { byId, el, icon } from "./dom.js";

const KEY = "marcir:tiles";
const SMALLEST = 96;
const LARGEST = 320;
const USUAL = { size: 160, denseSize: 112, dense: false };

function stored() {
  const within = (size, usual) =>
    Number.isFinite(size) ? Math.min(LARGEST, Math.max(SMALLEST, size)) : usual;
  try {
    const { size, denseSize, dense } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return {
      size: within(size, USUAL.size),
      denseSize: within(denseSize, USUAL.denseSize),
      dense: dense === true,
    };
  } catch {
    return { ...USUAL }; // storage is disabled, or holds something else
  }
}

/** The slider and the switch, as one element for the toolbar. */
export function makeDensity() {
  const chosen = stored();
  const slider = el("input", {
    type: "range",
    id: "tile-size",
    min: SMALLEST,
    max: LARGEST,
    step: 16,
    "aria-label": "Size of the images",
    title: "Size of the images",
  });
  const dense = el(
    "button",
    {
      class: "button",
      type: "button",
      id: "dense",
      "aria-label": "Dense",
      title: "Dense: only images, words when pointed at or focused (d)",
    },
    icon("dense"),
    el("span", { class: "wide-only" }, "Dense"),
  );

  function apply() {
    const grid = byId("grid");
    const size = chosen.dense ? chosen.denseSize : chosen.size;
    grid.style.setProperty("--tile", `${size}px`);
    grid.classList.toggle("dense", chosen.dense);
    dense.setAttribute("aria-pressed", String(chosen.dense));
    slider.value = String(size);
    slider.setAttribute("aria-valuetext", `${size} pixels`);
    slider.style.setProperty("--filled", `${(100 * (size - SMALLEST)) / (LARGEST - SMALLEST)}%`);
  }

  function change(changes) {
    Object.assign(chosen, changes);
    apply();
    try {
      localStorage.setItem(KEY, JSON.stringify(chosen));
    } catch {
      // storage is disabled: the choice is kept until the page is reloaded
    }
  }

  slider.addEventListener("input", () =>
    change({ [chosen.dense ? "denseSize" : "size"]: Number(slider.value) }),
  );
  const toggle = () => change({ dense: !chosen.dense });
  dense.addEventListener("click", toggle);
  apply();
  return { element: el("div", { class: "density", role: "group", "aria-label": "Density" }, slider, dense), toggle };
}
