// How well the vectors predict a label, as labels grow: a small line with its numbers in words.

import { el, svg } from "./dom.js";
import { count } from "./format.js";

const WIDTH = 240;
const HEIGHT = 96;
const EDGE = { left: 30, right: 10, top: 8, bottom: 20 };

/** @param {{average_precision: number|null, curve: {labels: number, average_precision: number}[], chance: number}} score */
export function precisionCurve({ average_precision: precision, curve, chance }) {
  if (precision === null || !curve.length)
    return el(
      "p",
      { class: "muted small" },
      "How good the suggestions are is measured as soon as 5 images have the label and 5 are known not to have it.",
    );
  const steps = curve.map(
    ({ labels, average_precision: value }) => `${value.toFixed(2)} with ${count(labels)} labels`,
  );
  return el(
    "figure",
    { class: "curve" },
    drawing(
      curve,
      chance,
      `Average precision, cross-validated: ${steps.join(", ")}. Random order: ${chance.toFixed(2)}.`,
    ),
    el(
      "figcaption",
      { class: "small" },
      el("strong", { class: "number" }, `AP ${precision.toFixed(2)}`),
      el(
        "span",
        { class: "muted" },
        ` with ${count(curve.at(-1).labels)} labels, cross-validated; random order ${chance.toFixed(2)}`,
      ),
    ),
  );
}

function drawing(curve, chance, words) {
  const first = Math.log(curve[0].labels);
  const span = Math.log(curve.at(-1).labels) - first;
  const left = (labels) =>
    EDGE.left + (WIDTH - EDGE.left - EDGE.right) * (span ? (Math.log(labels) - first) / span : 1);
  const top = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - value);
  const places = curve.map(({ labels, average_precision: value }) => [left(labels), top(value)]);
  const text = (x, y, content, anchor) => svg("text", { x, y, "text-anchor": anchor }, content);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words, class: "curve-drawing" },
    ...[0, 0.5, 1].flatMap((value) => [
      svg("line", {
        x1: EDGE.left,
        x2: WIDTH - EDGE.right,
        y1: top(value),
        y2: top(value),
        class: "curve-grid",
      }),
      text(EDGE.left - 5, top(value) + 3.5, value === 0.5 ? "0.5" : String(value), "end"),
    ]),
    svg("line", {
      x1: EDGE.left,
      x2: WIDTH - EDGE.right,
      y1: top(chance),
      y2: top(chance),
      class: "curve-chance",
    }),
    svg("polyline", { points: places.map((each) => each.join(",")).join(" "), class: "curve-line" }),
    ...places.map(([cx, cy]) => svg("circle", { cx, cy, r: 3, class: "curve-point" })),
    text(left(curve[0].labels), HEIGHT - 5, span ? count(curve[0].labels) : "", "start"),
    text(WIDTH - EDGE.right, HEIGHT - 5, `${count(curve.at(-1).labels)} labels`, "end"),
  );
}
