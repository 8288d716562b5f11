// Boxes and footprints in degrees (WGS84), as the map needs them. A box is [west, south, east, north], with
// west > east across the date line.

/** Width of a box in degrees; across the date line, too. */
const widthOf = ([west, , east]) => (east < west ? east - west + 360 : east - west);

/** @returns {number[]|null} the box in a text W,S,E,N; null where it is none */
export function parseBox(text) {
  const numbers = (text ?? "").split(",").map((part) => (part.trim() === "" ? NaN : Number(part)));
  if (numbers.length !== 4 || !numbers.every(Number.isFinite)) return null;
  const [west, south, east, north] = numbers;
  const inRange =
    Math.max(Math.abs(west), Math.abs(east)) <= 180 && south >= -90 && south <= north && north <= 90;
  return inRange ? numbers : null;
}

/**
 * The geometries of GeoJSON without anything else, with 6 decimals (0.1 m): it is put into the address.
 * @param {string} text
 */
export function geometryText(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Error("not GeoJSON, because it is no JSON.");
  }
  const found = geometriesOf(content);
  const geometry = found.length === 1 ? found[0] : { type: "GeometryCollection", geometries: found };
  return JSON.stringify(geometry, (_, value) =>
    typeof value === "number" ? Number(value.toFixed(6)) : value,
  );
}

/** The geometries of GeoJSON; what is none stays as it is, and the service says so. */
function geometriesOf(content) {
  if (Array.isArray(content?.features)) return content.features.flatMap(geometriesOf);
  if (content?.type !== "Feature") return [content];
  return content.geometry ? [content.geometry] : [];
}

/** @returns {{center: [number, number], zoom: number}|null} the view in a text LON,LAT,ZOOM */
export function parseView(text) {
  const [longitude, latitude, zoom] = (text ?? "").split(",").map(Number);
  const inRange = Math.abs(longitude) <= 180 && Math.abs(latitude) <= 90 && zoom >= 0 && zoom <= 24;
  return inRange ? { center: [longitude, latitude], zoom } : null;
}

/** Longitude from -180 to 180. */
export const wrap = (longitude) =>
  longitude < -180 || longitude > 180 ? modulo(longitude + 180, 360) - 180 : longitude;
const modulo = (number, by) => ((number % by) + by) % by;

/** Decimals of a degree that are about as fine as a pixel of the map. */
export const decimalsAt = (zoom) => Math.max(1, Math.ceil(Math.log10((512 * 2 ** zoom) / 360)));

/** "13.377, 52.516" */
export const pointText = (longitude, latitude, decimals) =>
  `${wrap(longitude).toFixed(decimals)}, ${latitude.toFixed(decimals)}`;

/** The middle of a box: longitude and latitude. */
export const centreOf = (box) => [wrap(box[0] + widthOf(box) / 2), (box[1] + box[3]) / 2];

/** A point of the ground that an image shows: in the widest part of its footprint at half the height of the box. */
export function innerPoint({ bbox, footprint }) {
  if (!footprint) return centreOf(bbox);
  const latitude = (bbox[1] + bbox[3]) / 2;
  const parts = footprint.type === "Polygon" ? [footprint.coordinates] : footprint.coordinates;
  const crossings = parts
    .flat()
    .flatMap((ring) => ring.slice(1).map(([x, y], at) => [ring[at], [x, y]]))
    .filter(([[, from], [, to]]) => from < latitude !== to < latitude)
    .map(([[x0, y0], [x1, y1]]) => x0 + ((latitude - y0) / (y1 - y0)) * (x1 - x0))
    .sort((a, b) => a - b);
  let widest = [0, 0];
  for (let at = 0; at + 1 < crossings.length; at += 2)
    if (crossings[at + 1] - crossings[at] > widest[1] - widest[0]) widest = crossings.slice(at, at + 2);
  return widest[1] > widest[0] ? [(widest[0] + widest[1]) / 2, latitude] : centreOf(bbox);
}

/** The corners of a box as a polygon; east of 180 degrees across the date line. */
export function boxPolygon(box) {
  const [west, south, , north] = box;
  const east = west + widthOf(box);
  return {
    type: "Polygon",
    coordinates: [
      [
        [west, south],
        [east, south],
        [east, north],
        [west, north],
        [west, south],
      ],
    ],
  };
}

/**
 * The ground that an image shows. Footprints are cut in two at the date line; the western part moves beyond 180
 * degrees, so that both are drawn side by side.
 * @returns {{polygon: object, outline: object}|null} geometries of GeoJSON; null for an image without a place
 */
export function shapeOf({ bbox, footprint }) {
  if (!bbox) return null;
  const [west, , east] = bbox;
  if (!footprint) {
    const polygon = boxPolygon(bbox);
    return { polygon, outline: { type: "MultiLineString", coordinates: polygon.coordinates } };
  }
  const gap = (west + east) / 2; // there is nothing at this longitude where the box crosses the date line
  const move = ([longitude, latitude]) => [
    east < west && longitude < gap ? longitude + 360 : longitude,
    latitude,
  ];
  const parts = footprint.type === "Polygon" ? [footprint.coordinates] : footprint.coordinates;
  const coordinates = parts.map((rings) => rings.map((ring) => ring.map(move)));
  const lines = coordinates.flat().flatMap((ring) => (east < west ? withoutCut(ring) : [ring]));
  return {
    polygon: { type: "MultiPolygon", coordinates },
    outline: { type: "MultiLineString", coordinates: lines },
  };
}

/** The lines of a ring without those along the date line, where a footprint was cut. */
function withoutCut(ring) {
  const lines = [[]];
  ring.forEach((point, at) => {
    if (at > 0 && point[0] === 180 && ring[at - 1][0] === 180) lines.push([]);
    lines.at(-1).push(point);
  });
  return lines.filter((line) => line.length > 1);
}

/**
 * The smallest box around boxes: what is left of the globe without the widest gap between them.
 * @returns {[[number, number], [number, number]]|null} southwest and northeast; east may be above 180
 */
export function boundsOf(boxes) {
  if (!boxes.length) return null;
  const spans = boxes.map((box) => [box[0], box[0] + widthOf(box)]).sort((a, b) => a[0] - b[0]);
  let [start, end, widest] = [spans[0][0], -Infinity, -Infinity];
  let reached = -Infinity;
  for (const [from, to] of spans) {
    if (from - reached > widest && reached > -Infinity)
      [widest, start, end] = [from - reached, from, reached];
    reached = Math.max(reached, to);
  }
  const around = spans[0][0] + 360 - reached; // the gap across the date line
  if (around >= widest) [start, end] = [spans[0][0], reached];
  const east = end < start ? end + 360 : end;
  const south = Math.min(...boxes.map((box) => box[1]));
  const north = Math.max(...boxes.map((box) => box[3]));
  return [
    [start, Math.max(-85, south)],
    [east, Math.min(85, north)],
  ];
}

/** From this zoom on a box is wide enough on the map to be seen as one, and not as a dot. */
export const zoomOf = (box, pixels) =>
  Math.log2((pixels * 360) / (512 * Math.max(widthOf(box), box[3] - box[1], 1e-9)));

/** The largest of 1, 2, 5, 10, 20, ... metres up to a length. */
export function roundLength(metres) {
  const power = 10 ** Math.floor(Math.log10(metres));
  return power * [5, 2, 1].find((step) => step * power <= metres);
}
