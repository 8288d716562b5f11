// Draws points into the pixels of a canvas. Without WebGL: 100,000 points take a few milliseconds of one
// processor, and it works where no graphics driver does.

/** Distinct for people with any colour vision (Okabe and Ito), and every colour has a shape of its own. */
const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#a8578a", "#b07d00", "#2b9fe0", "#1a1a1a", "#8c6d5a"],
  dark: ["#4aa8e8", "#ff8a3d", "#2fd0a0", "#e59ac8", "#f0e442", "#9ad9ff", "#ffffff", "#c9a48c"],
};
const OTHERS = { light: "#aeb8b4", dark: "#56625f" };
const GROUND = { light: "#ffffff", dark: "#171c1e" };
const CHOSEN = { light: "#c2005c", dark: "#ff5fa8" };
/** Whether a shape covers a pixel at (x, y) from its middle, for a radius. */
const SHAPES = [
  ["disc", (x, y, r) => x * x + y * y <= (r + 0.25) ** 2],
  ["square", (x, y, r) => Math.max(Math.abs(x), Math.abs(y)) <= 0.85 * r],
  ["triangle", (x, y, r) => y <= 0.75 * r && Math.abs(x) <= (y + r) * 0.58],
  ["diamond", (x, y, r) => Math.abs(x) + Math.abs(y) <= 1.15 * r],
  [
    "plus",
    (x, y, r) => Math.min(Math.abs(x), Math.abs(y)) <= 0.36 * r && Math.max(Math.abs(x), Math.abs(y)) <= r,
  ],
  [
    "cross",
    (x, y, r) =>
      Math.abs(Math.abs(x) - Math.abs(y)) <= 0.5 * r && Math.max(Math.abs(x), Math.abs(y)) <= 0.95 * r,
  ],
  ["ring", (x, y, r) => x * x + y * y <= (r + 0.25) ** 2 && x * x + y * y >= 0.3 * r * r],
  ["bar", (x, y, r) => Math.abs(x) <= r && Math.abs(y) <= 0.4 * r],
];
export const MOST_COLOURS = SHAPES.length;

/** Where a map is looked at: the middle, and pixels per unit. */
export class Camera {
  constructor() {
    Object.assign(this, { x: 0, y: 0, scale: 1, width: 1, height: 1 });
  }

  /** Shows everything. */
  fit() {
    Object.assign(this, { x: 0, y: 0, scale: this.smallest() });
  }

  smallest = () => 0.46 * Math.min(this.width, this.height);
  toMap = (left, top) => [
    (left - this.width / 2) / this.scale + this.x,
    (this.height / 2 - top) / this.scale + this.y,
  ];

  pan(left, top) {
    this.x = Math.max(-1, Math.min(1, this.x - left / this.scale));
    this.y = Math.max(-1, Math.min(1, this.y + top / this.scale));
  }

  /** Zooms so that the place at these pixels stays there. */
  zoom(factor, left = this.width / 2, top = this.height / 2) {
    const [x, y] = this.toMap(left, top);
    this.scale = Math.max(this.smallest(), Math.min(400 * this.smallest(), this.scale * factor));
    this.x = x - (left - this.width / 2) / this.scale;
    this.y = y - (this.height / 2 - top) / this.scale;
  }
}

/** @param {HTMLCanvasElement} canvas @returns {Painter|null} null where the browser draws nothing */
export function makePainter(canvas) {
  // Pixels are written by the processor, so they stay in its memory.
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  return context === null ? null : new Painter(canvas, context);
}

class Painter {
  #canvas;
  #context;
  #image = null;
  #pixels = null;
  #theme = "light";
  #order = new Uint32Array(0);

  constructor(canvas, context) {
    this.#canvas = canvas;
    this.#context = context;
  }

  /** @param {"light"|"dark"} theme */
  setTheme(theme) {
    this.#theme = theme;
  }

  resize(width, height) {
    Object.assign(this.#canvas, { width, height });
    this.#image = this.#context.createImageData(width, height);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  /** Puts points without a chosen label first, so that the others are drawn above them. */
  setPoints(points) {
    const order = new Uint32Array(points.size);
    let next = 0;
    for (let group = 0; group <= MOST_COLOURS; group += 1)
      for (let at = 0; at < points.size; at += 1) if (points.groups[at] === group) order[next++] = at;
    this.#order = order;
  }

  /** @param {Set<number>} chosen points that are shown as selected */
  draw(points, camera, ratio, chosen) {
    if (this.#pixels === null) return; // its size is not known yet; `resize` comes before the next call
    this.#pixels.fill(packed(GROUND[this.#theme]));
    const radius = radiusOf(points.size, camera) * ratio;
    const stencils = [
      this.#stencil(SHAPES[0][1], Math.max(0.6 * ratio, 0.7 * radius), OTHERS[this.#theme], false),
      ...SHAPES.map(([, covers], at) =>
        this.#stencil(covers, radius, COLOURS[this.#theme][at], radius >= 4 * ratio),
      ),
    ];
    for (const at of this.#order) this.#put(points, at, camera, ratio, stencils[points.groups[at]]);
    const ring = this.#stencil(SHAPES[6][1], radius + 2.5 * ratio, CHOSEN[this.#theme], false);
    for (const at of chosen) this.#put(points, at, camera, ratio, ring);
    this.#context.putImageData(this.#image, 0, 0);
  }

  #put(points, at, camera, ratio, { reach, offsets, colours }) {
    const { width, height } = this.#image;
    const left = ((points.x[at] - camera.x) * camera.scale + camera.width / 2) * ratio;
    const top = (camera.height / 2 - (points.y[at] - camera.y) * camera.scale) * ratio;
    if (left < reach || top < reach || left >= width - reach - 1 || top >= height - reach - 1) return;
    const middle = (top | 0) * width + (left | 0);
    const pixels = this.#pixels;
    for (let each = 0; each < offsets.length; each += 1) pixels[middle + offsets[each]] = colours[each];
  }

  /** The pixels of a shape, as differences of their indices; with an edge, neighbours stay apart. */
  #stencil(covers, radius, colour, edged) {
    const reach = Math.ceil(radius) + 1;
    const offsets = [];
    const colours = [];
    const add = (test, value) => {
      for (let y = -reach; y <= reach; y += 1)
        for (let x = -reach; x <= reach; x += 1)
          if (test(x, y)) {
            offsets.push(y * this.#image.width + x);
            colours.push(value);
          }
    };
    if (edged) add((x, y) => covers(x, y, radius + 1), packed(GROUND[this.#theme]));
    add((x, y) => covers(x, y, radius), packed(colour));
    return { reach, offsets: Int32Array.from(offsets), colours: Uint32Array.from(colours) };
  }
}

/** Small where there are many points, larger when one looks closer. */
const radiusOf = (size, camera) =>
  Math.min(
    7,
    Math.round(2 * Math.max(1, 90 / Math.sqrt(size + 1)) * (camera.scale / camera.smallest()) ** 0.4) / 2 + 1,
  );

/** A colour as the bytes of a pixel (red, green, blue, alpha), read as a number of the machine. */
function packed(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

/** The sign of a colour in the legend: a small canvas. */
export function swatch(group, theme) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 18, height: 18, className: "swatch" });
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  context.fillStyle = group === 0 ? OTHERS[theme] : COLOURS[theme][group - 1];
  const covers = SHAPES[group === 0 ? 0 : group - 1][1];
  for (let y = -8; y <= 8; y += 1)
    for (let x = -8; x <= 8; x += 1)
      if (covers(x, y, group === 0 ? 4 : 7)) context.fillRect(x + 9, y + 9, 1, 1);
  return canvas;
}
