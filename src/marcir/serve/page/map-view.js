// The map itself: MapLibre GL with the ground, the footprints of the images, and what one can do on it. This
// module, and MapLibre with it, is only loaded when a map is shown.

import * as maplibre from "./vendor/maplibre-gl.mjs";
import { tilesOf } from "./basemap.js";
import { onThemeChange, readColours, similarityColour } from "./map-colours.js";
import {
  boundsOf,
  boxPolygon,
  decimalsAt,
  innerPoint,
  parseBox,
  parseView,
  shapeOf,
  wrap,
  zoomOf,
} from "./map-geometry.js";

const DOT = 10; // pixels: smaller footprints are shown as dots
const DRAWN = 6; // pixels that a box must have at least, so that a click is none
const OPAQUE = 0.88; // footprints of several dates lie on each other: the best one shows its colour
const SOURCES = ["polygons", "outlines", "dots"];
const TOUCHABLE = ["polygons", "dots"];
const NOTHING = { type: "FeatureCollection", features: [] };
const file = (name) => new URL(`./vendor/${name}`, import.meta.url).href;

/** The style sheet of MapLibre, without which its parts lie in wrong places. */
const styleSheet = () =>
  new Promise((resolve, reject) => {
    const link = Object.assign(document.createElement("link"), {
      rel: "stylesheet",
      href: file("maplibre-gl.css"),
    });
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => reject(new Error("The style sheet of the map cannot be loaded.")));
    document.head.prepend(link); // before ours, which may change it
  });

/**
 * @param {HTMLElement} place
 * @param {{basemap: string|null, onHover: Function, onImage: Function, onPoint: Function, onBox: Function,
 *   onMove: Function, onPointer: Function, onNoBasemap: (why: string) => void}} acts `onMove(view)` where the user
 *   has moved the map
 */
export async function makeMapView(place, { basemap, onNoBasemap, onHover, onImage, onPoint, onBox, onMove, onPointer }) {
  await styleSheet();
  let tiles = null;
  try {
    if (basemap !== null) tiles = await tilesOf(basemap);
  } catch (error) {
    onNoBasemap(error.message);
  }
  let range = [0, 1];
  let marked = null;
  let indices = new Map();
  let armed = null; // "box", "point" or null
  const map = new maplibre.Map({
    container: place,
    style: styleOf(tiles),
    center: [0, 20],
    zoom: 0.5,
    maxZoom: 20,
    attributionControl: false,
    boxZoom: false,
    dragRotate: false,
    pitchWithRotate: false,
    touchPitch: false,
    fadeDuration: 0,
    locale: { "Map.Title": "Map of the images; arrow keys move it, + and − zoom" },
  });
  map.keyboard.disableRotation();
  map.touchZoomRotate.disableRotation();
  map.addControl(new maplibre.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new maplibre.ScaleControl({ maxWidth: 120 }), "bottom-left");
  map.on("error", ({ error }) => console.warn(`map: ${error?.message}`)); // a tile, at most
  map.on("dataloading", () => place.setAttribute("aria-busy", "true"));
  map.on("idle", () => place.removeAttribute("aria-busy"));
  await map.once("load");

  /** Draws in the colours of the theme. */
  function paint() {
    const colours = readColours();
    const footprint = similarityColour(range, colours.accent);
    const set = (layer, property, value) =>
      map.getLayer(layer) && map.setPaintProperty(layer, property, value);
    set("water", "background-color", colours["map-water"]);
    set("land", "fill-color", colours["map-land"]);
    set("coasts", "line-color", colours["map-coast"]);
    set("borders", "line-color", colours["map-border"]);
    set("area-halo", "line-color", colours.surface);
    set("area", "line-color", colours.accent);
    set("area-fill", "fill-color", colours.accent);
    set("polygons", "fill-color", footprint);
    // Without a query all have one colour, and would be one block.
    set("outlines", "line-color", similarityColour(range, colours.surface));
    set("dots", "circle-color", footprint);
    set("dots", "circle-stroke-color", colours.surface);
    set("marked-halo", "line-color", colours.surface);
    set("marked", "line-color", colours.ink);
    set("marked-dots", "circle-stroke-color", colours.ink);
    set("query-halo", "line-color", colours.surface);
    set("query", "line-color", colours.accent);
    set("query-dot", "circle-color", colours.accent);
    set("query-dot", "circle-stroke-color", colours.surface);
    set("point", "circle-color", colours.accent);
    set("point", "circle-stroke-color", colours.surface);
  }

  /** The image at a point of the screen: the most similar one where several lie there. */
  function imageAt({ x, y }) {
    const around = [
      [x - 3, y - 3],
      [x + 3, y + 3],
    ];
    const found = map
      .queryRenderedFeatures(around, { layers: TOUCHABLE })
      .map(({ properties }) => properties);
    return found.sort((a, b) => (b.similarity ?? 0) - (a.similarity ?? 0))[0]?.id ?? null;
  }

  function mark(id) {
    const at = indices.get(id) ?? null;
    if (at === marked) return;
    for (const source of SOURCES) {
      if (marked !== null) map.removeFeatureState({ source, id: marked });
      if (at !== null) map.setFeatureState({ source, id: at }, { marked: true });
    }
    marked = at;
  }

  function arm(what) {
    armed = what;
    place.dataset.armed = what ?? "";
    map.dragPan[what === "box" ? "disable" : "enable"]();
    map.touchZoomRotate[what === "box" ? "disable" : "enable"]();
  }

  const viewBox = () => {
    const bounds = map.getBounds();
    const wide = bounds.getEast() - bounds.getWest() >= 360;
    return [
      wide ? -180 : bounds.getWest(),
      bounds.getSouth(),
      wide ? 180 : bounds.getEast(),
      bounds.getNorth(),
    ];
  };
  const giveBox = ([west, south, east, north]) => {
    const digits = decimalsAt(map.getZoom());
    const sides = [wrap(west), Math.max(-90, south), wrap(east), Math.min(90, north)];
    onBox(sides.map((number) => Number(number.toFixed(digits))).join(","));
  };
  const givePoint = ({ lng, lat }) => {
    const digits = decimalsAt(map.getZoom()) + 1;
    onPoint([wrap(lng), lat].map((number) => Number(number.toFixed(digits))).join(","));
  };

  map.on("click", (event) => {
    const { ctrlKey, metaKey } = event.originalEvent;
    if (armed === "point" || ctrlKey || metaKey) return givePoint(event.lngLat);
    const id = armed === null ? imageAt(event.point) : null;
    return id === null ? undefined : onImage(id);
  });
  map.on("mousemove", (event) => {
    const id = armed === null ? imageAt(event.point) : null;
    map.getCanvas().style.cursor = armed ? "crosshair" : id === null ? "" : "pointer";
    onHover(id);
    onPointer(event.lngLat, map.getZoom());
  });
  map.on("mouseout", () => {
    onHover(null);
    onPointer(null, map.getZoom());
  });
  let byUser = false; // a zoom by the mouse wheel has no original event
  map.on("movestart", ({ originalEvent }) => {
    byUser = Boolean(originalEvent) || map.scrollZoom.isActive();
  });
  map.on("moveend", ({ originalEvent }) => {
    onPointer(null, map.getZoom());
    if (!originalEvent && !byUser) return; // the page itself has moved it
    const { lng, lat } = map.getCenter();
    const digits = decimalsAt(map.getZoom());
    onMove([wrap(lng).toFixed(digits), lat.toFixed(digits), map.getZoom().toFixed(2)].join(","));
  });
  map.getCanvas().addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || armed === null) return;
    event.preventDefault();
    if (armed === "point") givePoint(map.getCenter());
    else giveBox(viewBox());
  });
  drawBoxes(map, { isArmed: () => armed === "box", onDrawn: giveBox });
  onThemeChange(paint);
  paint();

  return {
    /** Shows images, filters and the point of the query. */
    show(hits, { bbox, within, at }) {
      const features = { polygons: [], outlines: [], dots: [] };
      const numbers = hits.map((hit) => hit.similarity).filter((number) => number !== null);
      range = numbers.length ? [Math.min(...numbers), Math.max(...numbers)] : [0, 1];
      mark(null);
      indices = new Map(hits.map((hit, at) => [hit.id, at]));
      hits.forEach((hit, at) => {
        const shape = shapeOf(hit);
        if (shape === null) return;
        const until = zoomOf(hit.bbox, DOT);
        const properties = {
          id: hit.id,
          until,
          ...(hit.similarity === null ? {} : { similarity: hit.similarity }),
        };
        const feature = (geometry) => ({ type: "Feature", id: at, properties, geometry });
        features.polygons.push(feature(shape.polygon));
        features.outlines.push(feature(shape.outline));
        features.dots.push(feature({ type: "Point", coordinates: innerPoint(hit) }));
      });
      for (const source of SOURCES)
        map.getSource(source).setData({ type: "FeatureCollection", features: features[source] });
      map.getSource("area").setData({ type: "FeatureCollection", features: areas(bbox, within) });
      map.getSource("point").setData(pointOf(at));
      paint();
    },
    /** Marks the image that the query consists of; null for none. */
    showQuery(image) {
      map.getSource("query").setData(image === null ? NOTHING : placeOf(image));
    },
    mark,
    arm,
    /** Moves to a view LON,LAT,ZOOM; false where the text is none. */
    look(text) {
      const view = parseView(text);
      if (view) map.jumpTo(view);
      return view !== null;
    },
    /** Moves to where boxes are. */
    fit(boxes, { calm = false } = {}) {
      const bounds = boundsOf(boxes);
      const still = calm || matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (bounds) map.fitBounds(bounds, { padding: 48, maxZoom: 17, duration: still ? 0 : 500 });
    },
    filterByView: () => giveBox(viewBox()),
    resize: () => map.resize(),
    focus: () => map.getCanvas().focus(),
    centre: () => map.getCenter(),
  };
}

/** The filters as shapes; text that cannot be drawn is left out, the service says what is wrong with it. */
function areas(bbox, within) {
  const found = [];
  const box = parseBox(bbox);
  if (box) found.push({ type: "Feature", properties: {}, geometry: boxPolygon(box) });
  try {
    const area = JSON.parse(within ?? "null");
    const features = area?.type === "FeatureCollection" ? area.features : area ? [area] : [];
    for (const each of features)
      found.push({
        type: "Feature",
        properties: {},
        geometry: each.type === "Feature" ? each.geometry : each,
      });
  } catch {
    // not JSON
  }
  return found;
}

function pointOf(at) {
  const coordinates = (at ?? "").split(",").map(Number);
  const usable = coordinates.length === 2 && coordinates.every(Number.isFinite);
  return usable ? { type: "Point", coordinates } : NOTHING;
}

/** The outline of an image, and a point for where it is too small to be seen. */
function placeOf(image) {
  const shape = shapeOf(image);
  if (shape === null) return NOTHING;
  const feature = (geometry) => ({
    type: "Feature",
    properties: { until: zoomOf(image.bbox, DOT) },
    geometry,
  });
  const point = { type: "Point", coordinates: innerPoint(image) };
  return { type: "FeatureCollection", features: [feature(shape.outline), feature(point)] };
}

/** Lets the user draw a box: with the shift key, or while the map is armed. */
function drawBoxes(map, { isArmed, onDrawn }) {
  const place = map.getCanvasContainer();
  const frame = document.createElement("div");
  frame.className = "map-frame";
  let start = null;

  const pointOn = ({ clientX, clientY }) => {
    const edge = place.getBoundingClientRect();
    return [clientX - edge.left, clientY - edge.top];
  };
  const sides = (event) => {
    const [x, y] = pointOn(event);
    return [Math.min(x, start[0]), Math.min(y, start[1]), Math.max(x, start[0]), Math.max(y, start[1])];
  };
  const stop = () => {
    start = null;
    frame.remove();
    if (!isArmed()) map.dragPan.enable();
  };

  place.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0 || !(event.shiftKey || isArmed())) return;
      map.dragPan.disable();
      start = pointOn(event);
      place.setPointerCapture(event.pointerId);
    },
    { capture: true },
  );
  place.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [left, top, right, bottom] = sides(event);
    place.append(frame);
    Object.assign(frame.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${right - left}px`,
      height: `${bottom - top}px`,
    });
  });
  place.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [left, top, right, bottom] = sides(event);
    stop();
    if (right - left < DRAWN || bottom - top < DRAWN) return;
    const [low, high] = [map.unproject([left, bottom]), map.unproject([right, top])];
    onDrawn(
      high.lng - low.lng >= 360 ? [-180, low.lat, 180, high.lat] : [low.lng, low.lat, high.lng, high.lat],
    );
  });
  place.addEventListener("pointercancel", stop);
}

/** The layers, from the ground up; `paint` gives them their colours. */
function styleOf(tiles) {
  const marked = ["case", ["boolean", ["feature-state", "marked"], false], 1, 0];
  const isDot = ["<", ["zoom"], ["get", "until"]];
  const data = (content) => ({ type: "geojson", data: content });
  const ground = tiles
    ? [{ id: "tiles", type: "raster", source: "tiles", paint: { "raster-fade-duration": 0 } }]
    : [
        { id: "land", type: "fill", source: "ground", filter: ["==", ["get", "kind"], "land"] },
        { id: "borders", type: "line", source: "ground", filter: ["==", ["get", "kind"], "border"] },
        { id: "coasts", type: "line", source: "ground", filter: ["==", ["get", "kind"], "coast"] },
      ];
  return {
    version: 8,
    sources: {
      ...(tiles ? { tiles } : { ground: data(file("basemap.json")) }),
      area: data(NOTHING),
      point: data(NOTHING),
      query: data(NOTHING),
      polygons: data(NOTHING),
      outlines: data(NOTHING),
      dots: data(NOTHING),
    },
    layers: [
      { id: "water", type: "background" },
      ...ground,
      { id: "area-fill", type: "fill", source: "area", paint: { "fill-opacity": 0.06 } },
      {
        id: "polygons",
        type: "fill",
        source: "polygons",
        layout: { "fill-sort-key": ["coalesce", ["get", "similarity"], 0] },
        paint: { "fill-opacity": OPAQUE, "fill-antialias": false }, // or the cut at the date line is seen
      },
      {
        id: "outlines",
        type: "line",
        source: "outlines",
        layout: { "line-sort-key": ["coalesce", ["get", "similarity"], 0] },
        paint: { "line-width": 1.5 },
      },
      {
        id: "dots",
        type: "circle",
        source: "dots",
        filter: isDot,
        layout: { "circle-sort-key": ["coalesce", ["get", "similarity"], 0] },
        paint: { "circle-radius": 6, "circle-stroke-width": 1.5 },
      },
      { id: "area-halo", type: "line", source: "area", paint: { "line-width": 5 } },
      { id: "area", type: "line", source: "area", paint: { "line-width": 2, "line-dasharray": [3, 2] } },
      { id: "query-halo", type: "line", source: "query", paint: { "line-width": 7 } },
      { id: "query", type: "line", source: "query", paint: { "line-width": 3 } },
      {
        id: "query-dot",
        type: "circle",
        source: "query",
        filter: ["all", ["==", ["geometry-type"], "Point"], isDot],
        paint: { "circle-radius": 6, "circle-stroke-width": 3 },
      },
      {
        id: "marked-halo",
        type: "line",
        source: "outlines",
        paint: { "line-width": 7, "line-opacity": marked },
      },
      { id: "marked", type: "line", source: "outlines", paint: { "line-width": 3, "line-opacity": marked } },
      {
        id: "marked-dots",
        type: "circle",
        source: "dots",
        filter: isDot,
        paint: {
          "circle-radius": 8,
          "circle-opacity": 0,
          "circle-stroke-width": 3,
          "circle-stroke-opacity": marked,
        },
      },
      {
        id: "point",
        type: "circle",
        source: "point",
        paint: { "circle-radius": 6, "circle-stroke-width": 3 },
      },
    ],
  };
}
