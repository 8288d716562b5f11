// The panel of the map: beside the images on wide screens, between the line above them and the images on narrow
// ones. The map is loaded when the panel is shown for the first time.

import { image, thumbnailUrl } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { shortName, similarity } from "./format.js";
import { similaritySteps, onThemeChange } from "./map-colours.js";
import { decimalsAt, pointText } from "./map-geometry.js";
import { notice } from "./notices.js";
import { thumbnail } from "./query-images.js";
import { withChanges, withQuery } from "./state.js";

const BESIDE = matchMedia("(min-width: 75rem)");
const AT_FIRST = matchMedia("(min-width: 60rem)"); // where the map is shown without being asked for
const [LEAST, MOST, STEP] = [22, 70, 2]; // width of the panel in percent
const NATURAL_EARTH = "Natural Earth";
const NO_WEBGL = "There is no map, because this browser has no WebGL. Everything else works.";

const stored = (name) => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is disabled
  }
};
const store = (name, value) => {
  try {
    localStorage.setItem(name, value);
  } catch {
    // storage is disabled: the choice is kept until the page is reloaded
  }
};

/**
 * @param {{getState: () => import("./state.js").State, go: Function, onSearch: (id: string) => void,
 *   onView: (view: string) => void}} acts `onView`: the user has moved the map
 */
export function makeMapPanel({ getState, go, onSearch, onView }) {
  const canvas = el("div", { class: "map-canvas" });
  const card = el("div", { class: "map-card", hidden: true });
  const where = el("p", { class: "map-where number" });
  const legend = el("p", { class: "map-legend", hidden: true });
  const source = el("p", { class: "muted" });
  const splitter = el("div", {
    class: "map-splitter",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": "Width of the map",
    "aria-valuemin": String(LEAST),
    "aria-valuemax": String(MOST),
  });
  const tool = (words, sign, title, act) =>
    el(
      "button",
      { class: "button", type: "button", title, on: { click: act } },
      icon(sign),
      el("span", {}, words),
    );
  const boxTool = tool("Box", "rectangle", "Draw a box as a filter (or drag with Shift)", () => arm("box"));
  const pointTool = tool("Search here", "pin", "Search with the image at a point (or Ctrl click)", () =>
    arm("point"),
  );
  const tools = el(
    "div",
    { class: "map-tools", role: "group", "aria-label": "Tools of the map" },
    boxTool,
    pointTool,
    tool("This view", "view", "Only images in this part of the map", () => view?.filterByView()),
    tool("All hits", "fit", "Show where all the images are", () => view?.fit(boxes())),
  );
  const panel = el(
    "section",
    { class: "map-panel", id: "map-panel", "aria-label": "Map", hidden: true },
    splitter,
    tools,
    el("div", { class: "map-space" }, canvas, card),
    el("div", { class: "map-foot small" }, legend, where, source),
  );
  const toggle = el(
    "button",
    { class: "button", type: "button", id: "map-switch", hidden: true },
    icon("map"),
    "Map",
  );
  const missing = el("p", { class: "muted small map-missing", hidden: true }, NO_WEBGL);
  let archive = null;
  let view = null;
  let loading = false;
  let armed = null;
  let shown = { key: null, state: getState(), hits: [], queryImages: [] };
  let drawnKey = null;

  const boxes = () => shown.hits.map((hit) => hit.bbox).filter(Boolean);
  const isShown = () => !panel.hidden;

  function arm(what) {
    armed = armed === what ? null : what;
    view?.arm(armed);
    for (const [each, name] of [
      [boxTool, "box"],
      [pointTool, "point"],
    ])
      each.setAttribute("aria-pressed", String(armed === name));
    if (armed) view?.focus();
    writeWhere(null, null);
  }

  /** Puts the panel where it fits on the screen. */
  function arrange() {
    const beside = BESIDE.matches;
    if (beside) byId("columns").append(panel);
    else byId("toolbar").after(panel);
    byId("columns").classList.toggle("with-map", beside && isShown());
    splitter.hidden = !beside;
    view?.resize();
  }

  function setShown(on, { keep = true } = {}) {
    panel.hidden = !on;
    toggle.setAttribute("aria-pressed", String(on));
    if (keep) store("marcir:map", on ? "shown" : "hidden");
    arrange();
    if (on) load();
  }

  async function load() {
    if (view || loading) return draw();
    loading = true;
    try {
      const { makeMapView } = await import("./map-view.js");
      view = await makeMapView(canvas, {
        basemap: archive.basemap,
        onNoBasemap(why) {
          notice(`The base map of ${new URL(archive.basemap).host} cannot be shown: ${why}`, { problem: true });
          source.textContent = NATURAL_EARTH;
        },
        onHover: hover,
        onImage: onSearch,
        onPoint(at) {
          arm(null);
          go(withQuery(getState(), { at }), { top: true });
        },
        onBox(bbox) {
          arm(null);
          go(withChanges(getState(), { bbox }));
        },
        onMove: onView,
        onPointer: writeWhere,
      });
      view.arm(armed); // a tool may have been chosen meanwhile
      if (armed) view.focus();
    } catch (error) {
      notice(`The map cannot be shown: ${error.message}`, { problem: true });
      setShown(false, { keep: false });
    } finally {
      loading = false;
    }
    return draw();
  }

  /** Shows the newest images on the map, which follows them unless the address says where it is. */
  function draw() {
    if (!view || !isShown()) return;
    const { key, state, hits } = shown;
    view.show(hits, state);
    drawQuery(shown);
    if (!view.look(state.map) && key !== drawnKey)
      view.fit(boxes().length ? boxes() : [archive.extent], { calm: drawnKey === null });
    drawnKey = key;
  }

  /** Marks the image of the query, which is no hit. */
  async function drawQuery(about) {
    if (about.queryImages.length !== 1) return view.showQuery(null);
    try {
      about.queried ??= await image(about.queryImages[0]);
    } catch {
      return view.showQuery(null); // it is gone
    }
    return about === shown && view.showQuery(about.queried);
  }

  function writeWhere(point, zoom) {
    if (armed && !point) {
      where.textContent =
        armed === "box"
          ? "Drag a box; Enter takes this view; Esc ends"
          : "Click a point; Enter takes the centre; Esc ends";
    } else if (point) where.textContent = pointText(point.lng, point.lat, decimalsAt(zoom));
    else if (zoom !== null && view) {
      const { lng, lat } = view.centre();
      where.textContent = `centre ${pointText(lng, lat, decimalsAt(zoom))}`;
    } else where.textContent = "";
  }

  function drawLegend() {
    const numbers = shown.hits.map((hit) => hit.similarity).filter((number) => number !== null);
    legend.hidden = !numbers.length;
    if (legend.hidden) return;
    const bar = el("span", { class: "map-ramp", "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${similaritySteps().join(", ")})`;
    legend.replaceChildren(
      "Similarity ",
      el("span", { class: "number" }, similarity(Math.min(...numbers))),
      bar,
      el("span", { class: "number" }, similarity(Math.max(...numbers))),
    );
  }

  /** Marks the tile of an image that the pointer is on, and shows it on the map. */
  function hover(id) {
    for (const each of byId("grid").querySelectorAll(".tile"))
      each.classList.toggle("on-map", each.dataset.id === id);
    const hit = shown.hits.find((each) => each.id === id);
    card.hidden = !hit;
    view?.mark(id ?? focusedId());
    if (!hit || card.dataset.id === id) return;
    card.dataset.id = id;
    const facts = [hit.similarity === null ? null : similarity(hit.similarity), hit.date].filter(Boolean);
    card.replaceChildren(
      thumbnail(thumbnailUrl(id)),
      el("p", {}, el("strong", {}, shortName(id)), el("span", { class: "muted" }, facts.join(" · "))),
    );
  }

  const focusedId = () => document.activeElement?.closest?.(".tile")?.dataset.id ?? null;
  const markTile = (event) => view?.mark(event.target.closest?.(".tile")?.dataset.id ?? focusedId());

  for (const name of ["mouseover", "focusin"]) byId("grid").addEventListener(name, markTile);
  byId("grid").addEventListener("mouseleave", () => view?.mark(focusedId()));
  byId("grid").addEventListener("focusout", () => view?.mark(null));
  toggle.addEventListener("click", () => setShown(!isShown()));
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || armed === null) return;
    event.preventDefault();
    arm(null);
  });
  BESIDE.addEventListener("change", arrange);
  onThemeChange(drawLegend);
  makeSplitter(splitter, () => view?.resize());

  return {
    toggle,
    build(found) {
      archive = found;
      if (!archive.extent) return;
      if (!hasWebGL()) {
        missing.hidden = false;
        byId("toolbar").after(missing);
        return;
      }
      source.textContent = archive.basemap ? `Tiles: ${new URL(archive.basemap).host}` : NATURAL_EARTH;
      toggle.hidden = false;
      const choice = stored("marcir:map");
      setShown(choice === null ? AT_FIRST.matches : choice === "shown", { keep: false });
    },
    /**
     * @param {string} key what is asked, without filters: the map follows where it changes
     * @param {string[]} queryImages ids of the images that the query consists of
     */
    show(key, state, hits, queryImages) {
      if (toggle.hidden) return;
      shown = { key: `${key} ${state.offset}`, state, hits, queryImages };
      card.hidden = true;
      drawLegend();
      draw();
    },
    /** Goes to the map, or from the map to the images. */
    visit() {
      if (toggle.hidden) return;
      const leaves = panel.contains(document.activeElement);
      setShown(!leaves);
      if (leaves) toggle.focus();
      else if (view) view.focus();
      else boxTool.focus(); // until the map is loaded
    },
  };
}

/** Lets the user change the width of the panel, with the pointer or the arrow keys. */
function makeSplitter(splitter, onWidth) {
  const set = (percent) => {
    const width = Math.min(MOST, Math.max(LEAST, Math.round(percent)));
    byId("columns").style.setProperty("--map-width", `${width}%`);
    splitter.setAttribute("aria-valuenow", String(width));
    store("marcir:map-width", String(width));
    onWidth();
  };
  set(Number(stored("marcir:map-width")) || 33);
  splitter.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (!by) return;
    event.preventDefault();
    set(Number(splitter.getAttribute("aria-valuenow")) + by);
  });
  splitter.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    splitter.setPointerCapture(event.pointerId);
  });
  splitter.addEventListener("pointermove", (event) => {
    if (splitter.hasPointerCapture(event.pointerId)) set(100 * (1 - event.clientX / innerWidth));
  });
}

function hasWebGL() {
  try {
    return document.createElement("canvas").getContext("webgl2") !== null;
  } catch {
    return false;
  }
}
