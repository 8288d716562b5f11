// The map of similarity: every image is a point, and images that the model finds alike lie close together.

import * as api from "./api.js";
import { el, icon, screenReaderText, svg } from "./dom.js";
import { count, counted, shortName } from "./format.js";
import { Camera, MOST_COLOURS, makePainter, swatch } from "./embedding-painter.js";
import { loadPoints } from "./embedding-points.js";
import { announce, notice, showBusy } from "./notices.js";
import { filterQuery } from "./state.js";

const REACH = 12; // pixels between the pointer and a point that it means
const CLICK = 4; // pixels that a pointer may move in a click
const STEP = 60; // pixels per arrow key
const ZOOM = 1.4;
const KEYS =
  "Keys: arrows move, + and - zoom, 0 shows everything. Enter opens the image in the middle, Space selects it. " +
  "r opens a rectangle, Shift and the arrows change its size, Enter selects what is in it.";

/** @param {{getState: Function, go: Function, selection: {add: Function, onChange: Function, ids: Function}, onOpen: Function}} acts */
export function makeEmbeddingMap({ getState, go, selection, onOpen }) {
  const canvas = el("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": "Map of similarity",
    "aria-describedby": "similarity-keys",
  });
  const overlay = svg("svg", { class: "similarity-overlay", "aria-hidden": "true" });
  const card = el("div", { class: "similarity-card", hidden: true });
  const area = el("div", { class: "similarity-area" }, canvas, overlay, card);
  const heading = el("h1", { class: "places" });
  const legend = el("ul", { class: "similarity-legend", "aria-label": "Colours of labels" });
  const lassoButton = toggle("lasso", "Lasso", "Draw around images to select them (or hold Shift)");
  const tools = el(
    "div",
    { class: "tools" },
    lassoButton,
    button("plus", "Zoom in", () => zoom(ZOOM)),
    button("minus", "Zoom out", () => zoom(1 / ZOOM)),
    button("fit", "Show everything", () => (camera.fit(), redraw())),
  );
  const element = el(
    "section",
    { class: "similarity-map", "aria-label": "Map of similarity" },
    el("div", { class: "toolbar-line" }, heading, tools),
    el(
      "p",
      { class: "muted small similarity-help" },
      "Every point is an image. Images that the model finds alike lie close together.",
    ),
    legend,
    area,
    el("p", { class: "muted small", id: "similarity-keys" }, KEYS),
  );
  const painter = makePainter(canvas);
  const camera = new Camera();
  const newest = new api.Newest();
  const hovers = new api.Newest();
  const pointers = new Map();
  let archive = null;
  let points = null;
  let asked = "";
  let path = null; // of the lasso, in pixels
  let box = null; // the half sizes of the rectangle of the keyboard, in pixels
  let chosen = new Set();
  let waiting = false;
  let ratio = 1;

  const theme = () => {
    const chosenTheme = document.documentElement.dataset.theme;
    const dark = chosenTheme ? chosenTheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return dark ? "dark" : "light";
  };

  /** The labels that are coloured: those of the address, else the most common ones. */
  const coloured = () => {
    const known = archive.labels.filter(({ count: carried }) => carried > 0).map(({ name }) => name);
    const wanted = getState().colour.length ? getState().colour : known;
    return wanted.slice(0, MOST_COLOURS);
  };

  function redraw() {
    if (waiting || points === null) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (points === null || !element.isConnected) return;
      painter.draw(points, camera, ratio, chosen);
    });
  }

  function resize() {
    const { width, height } = area.getBoundingClientRect();
    if (!width || !height) return;
    const whole = camera.scale <= camera.smallest() || camera.width === 1;
    ratio = Math.min(devicePixelRatio, 2);
    Object.assign(camera, { width, height });
    if (whole) camera.scale = camera.smallest();
    painter.resize(Math.round(width * ratio), Math.round(height * ratio));
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawBox();
    redraw();
  }

  function zoom(factor, left, top) {
    camera.zoom(factor, left, top);
    redraw();
  }

  async function load({ again = false } = {}) {
    const labels = coloured();
    const filters = filterQuery(getState());
    const wanted = JSON.stringify([filters.toString(), labels]);
    if (wanted === asked && !again) return;
    asked = wanted;
    const signal = newest.next();
    area.setAttribute("aria-busy", "true");
    try {
      points = await loadPoints({ filters, labels }, { signal, onBusy: showBusy });
      painter.setPoints(points);
      chosen = new Set();
      hideCard();
      drawWords(labels);
      redraw();
    } catch (error) {
      if (error.name === "AbortError") return;
      asked = "";
      notice(error.message, { problem: true });
    } finally {
      if (!signal.aborted) area.removeAttribute("aria-busy");
    }
  }

  function drawWords(labels) {
    const some = points.size < points.total ? `${count(points.size)} of ` : "";
    heading.textContent = `Map of similarity: ${some}${counted(points.total, "image")}`;
    canvas.setAttribute("aria-label", heading.textContent);
    announce(heading.textContent);
    const without = points.size - points.bits.reduce((sum, bits) => sum + (bits ? 1 : 0), 0);
    const rest = archive.labels.map(({ name }) => name).filter((name) => !labels.includes(name));
    const set = (colour) => go({ ...getState(), colour });
    const add = el(
      "select",
      { class: "field", "aria-label": "Colour another label" },
      el("option", { value: "" }, "Colour a label…"),
      ...rest.map((name) => el("option", { value: name }, name)),
    );
    add.addEventListener("change", () => add.value && set([...labels, add.value]));
    legend.replaceChildren(
      ...labels.map((name, at) =>
        el(
          "li",
          {},
          el(
            "button",
            {
              class: "chip",
              type: "button",
              title: labels.length > 1 ? `No colour for ${name}` : name,
              disabled: labels.length === 1,
              on: { click: () => set(labels.filter((each) => each !== name)) },
            },
            swatch(at + 1, theme()),
            el("span", { class: "chip-name" }, name),
            el("span", { class: "number muted" }, count(points.counts[at])),
            screenReaderText(
              points.counts[at] === 1 ? "image: remove the colour" : "images: remove the colour",
            ),
            icon("close"),
          ),
        ),
      ),
      el("li", { class: "similarity-others muted" }, swatch(0, theme()), `none of these: ${count(without)}`),
      rest.length > 0 && labels.length < MOST_COLOURS ? el("li", {}, add) : "",
    );
    if (labels.length > 1)
      legend.title = "An image that has several of these labels has the colour of the rarest";
  }

  const placeOf = (event) => {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };

  const pointAt = (left, top, reach = REACH) =>
    points === null ? -1 : points.nearest(...camera.toMap(left, top), reach / camera.scale);

  function hideCard() {
    hovers.next();
    card.hidden = true;
  }

  /** Shows what a point is; `say`: also to screen readers. */
  async function showCard(at, { say = false } = {}) {
    if (at === -1) return hideCard();
    const signal = hovers.next();
    const left = (points.x[at] - camera.x) * camera.scale + camera.width / 2;
    const top = camera.height / 2 - (points.y[at] - camera.y) * camera.scale;
    try {
      const [id] = await points.ids([at], { signal });
      if (signal.aborted || id === undefined) return undefined;
      const labels = coloured().filter((_, bit) => (points.bits[at] >>> bit) & 1);
      card.replaceChildren(
        el("img", { src: api.thumbnailUrl(id), alt: "", width: "128", height: "128" }),
        el("strong", {}, shortName(id)),
        labels.length > 0 && el("span", {}, labels.join(", ")),
      );
      card.hidden = false;
      card.style.insetInlineStart = `${left > camera.width - 180 ? left - 170 : left + 16}px`;
      card.style.insetBlockStart = `${Math.max(4, Math.min(top - 40, camera.height - 200))}px`;
      card.dataset.id = id;
      if (say) announce([shortName(id), ...labels].join(", "));
    } catch (error) {
      failed(error);
    }
    return undefined;
  }

  /** Does something with the ids of points; a changed archive is loaded again. */
  async function withIds(which, act) {
    try {
      act(await points.ids(which, { onBusy: showBusy }));
    } catch (error) {
      failed(error);
    }
  }

  function failed(error) {
    if (error.name === "AbortError") return;
    if (error.status === 409) {
      notice("The archive has changed; the map was loaded again.");
      load({ again: true });
    } else notice(error.message, { problem: true });
  }

  const open = (at) => at !== -1 && withIds([at], ([id]) => id !== undefined && onOpen(id));

  function select(which) {
    if (!which.length) return announce("No image is there.");
    return withIds(which, (ids) => {
      for (const at of which) chosen.add(at);
      redraw();
      selection.add(ids);
      announce(`${counted(ids.length, "image")} added to the selection.`);
    });
  }

  function selectIn(corners) {
    select(points.inside(corners.map(([left, top]) => camera.toMap(left, top))));
  }

  function drawPath() {
    overlay.replaceChildren(
      ...(path ? [svg("polygon", { points: path.map((each) => each.join(",")).join(" ") })] : []),
    );
  }

  const boxCorners = () => {
    const [wide, high] = [Math.min(box[0], camera.width / 2 - 2), Math.min(box[1], camera.height / 2 - 2)];
    const [x, y] = [camera.width / 2, camera.height / 2];
    return [
      [x - wide, y - high],
      [x + wide, y - high],
      [x + wide, y + high],
      [x - wide, y + high],
    ];
  };

  function drawBox() {
    path = box ? boxCorners() : null;
    drawPath();
    path = null;
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (points === null || event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { at: placeOf(event), from: placeOf(event) });
    hideCard();
    if (pointers.size === 1 && (event.shiftKey || lassoButton.getAttribute("aria-pressed") === "true"))
      path = [placeOf(event)];
    else path = null;
  });

  canvas.addEventListener("pointermove", (event) => {
    const here = placeOf(event);
    const held = pointers.get(event.pointerId);
    if (!held) return void showCard(pointAt(...here));
    const before = held.at;
    held.at = here;
    if (path) {
      path.push(here);
      drawPath();
    } else if (pointers.size === 2) pinch(event.pointerId, before, here);
    else if (distance(here, held.from) > CLICK || held.moved) {
      held.moved = true;
      camera.pan(here[0] - before[0], here[1] - before[1]);
      redraw();
    }
    return undefined;
  });

  function pinch(pointerId, before, here) {
    const [, other] = [...pointers].find(([id]) => id !== pointerId);
    other.moved = true;
    pointers.get(pointerId).moved = true;
    zoom(distance(here, other.at) / Math.max(1, distance(before, other.at)), ...other.at);
  }

  canvas.addEventListener("pointerup", (event) => {
    const held = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (!held) return;
    const drawn = path;
    path = null;
    drawPath();
    if (drawn && drawn.length > 2) selectIn(drawn);
    else if (!held.moved) open(pointAt(...held.at));
  });
  canvas.addEventListener("pointercancel", (event) => {
    pointers.delete(event.pointerId);
    path = null;
    drawPath();
  });
  canvas.addEventListener("pointerleave", () => pointers.size === 0 && hideCard());
  canvas.addEventListener("blur", hideCard);
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      hideCard();
      zoom(1.0015 ** -event.deltaY, ...placeOf(event));
    },
    { passive: false },
  );

  const middle = () => pointAt(camera.width / 2, camera.height / 2, 2 * REACH);
  const moves = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const keys = {
    "+": () => zoom(ZOOM),
    "=": () => zoom(ZOOM),
    "-": () => zoom(1 / ZOOM),
    0: () => (camera.fit(), redraw()),
    r() {
      box = box ? null : [camera.width / 5, camera.height / 5];
      drawBox();
      announce(box ? "Rectangle in the middle. Enter selects what is in it." : "Rectangle closed.");
    },
    Enter: () => (box ? selectIn(boxCorners()) : open(middle())),
    " ": () => (box ? selectIn(boxCorners()) : select([middle()].filter((at) => at !== -1))),
    o: () => open(middle()),
  };

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || points === null) return;
    const move = moves[event.key];
    if (event.key === "Escape" && box) keys.r();
    else if (move && event.shiftKey && box) {
      box = [Math.max(8, box[0] - move[0] / 4), Math.max(8, box[1] + move[1] / 4)];
      drawBox();
    } else if (move) {
      camera.pan(...move);
      redraw();
    } else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault();
    if (!box && event.key !== "Enter" && event.key !== "o") showCard(middle(), { say: true });
  });

  lassoButton.addEventListener("click", () => {
    const on = lassoButton.getAttribute("aria-pressed") !== "true";
    lassoButton.setAttribute("aria-pressed", String(on));
    area.classList.toggle("lassoing", on);
  });
  selection.onChange(() => {
    if (selection.ids().length || !chosen.size) return;
    chosen = new Set();
    redraw();
  });

  function follow() {
    if (!painter) return;
    painter.setTheme(theme());
    if (points) drawWords(coloured());
    redraw();
  }
  if (painter) {
    new ResizeObserver(resize).observe(area);
    new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
  }

  return {
    element,
    /** After labels have changed: the points are loaded again when they are shown next. */
    forget() {
      asked = "";
    },
    /** Follows the filters and colours of the page. */
    show(about) {
      archive = about;
      if (!painter) {
        area.replaceChildren(
          el(
            "p",
            { class: "similarity-nothing" },
            "This browser cannot draw the map (no canvas). Everything else works.",
          ),
        );
        heading.textContent = "Map of similarity";
        tools.hidden = true;
        return;
      }
      painter.setTheme(theme());
      load();
    },
  };

  function button(sign, words, act) {
    return el(
      "button",
      { class: "icon-button", type: "button", "aria-label": words, title: words, on: { click: act } },
      icon(sign),
    );
  }

  function toggle(sign, words, title) {
    return el(
      "button",
      { class: "button", type: "button", "aria-pressed": "false", title },
      icon(sign),
      words,
    );
  }
}

const distance = ([x, y], [u, v]) => Math.hypot(x - u, y - v);
