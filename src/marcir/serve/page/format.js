// Formats numbers and names.

const whole = new Intl.NumberFormat("en");

/** 2100 -> "2,100" */
export const count = (number) => whole.format(number);

/** "1 image", "2,100 images" */
export const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** The last part of a path: "a/b/001.png" -> "001.png" */
export const shortName = (id) => id.split("/").filter(Boolean).at(-1) ?? id;

/** A window of a scene: its scene, x and y; null for an image that is a file. */
export function windowOf(id) {
  const found = /^(.+)@x=(\d+),y=(\d+),w=\d+,h=\d+/s.exec(id);
  return found && { scene: shortName(found[1]), corner: `${found[2]},${found[3]}` };
}

/** 0.93149 -> "0.931" */
export const similarity = (number) => number.toFixed(3);

/** 20971520 -> "20 MB", in the units of the limits of the service */
export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB"];
  let unit = 0;
  while (number >= 1000 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number >= 10 || unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

/** Size of a box of degrees on the ground; west may be larger than east, across the date line. */
export function groundSize(bbox) {
  return `${metres(groundWidth(bbox))} by ${metres((bbox[3] - bbox[1]) * DEGREE)}`;
}

const DEGREE = 111_320; // metres of a degree of latitude

/** Metres from the western to the eastern side of a box of degrees. */
export function groundWidth([west, south, east, north]) {
  const middle = ((south + north) / 2) * (Math.PI / 180);
  return ((east - west + 360) % 360) * DEGREE * Math.cos(middle);
}

/** 1234 -> "1.2 km" */
export const metres = (number) =>
  number < 1000 ? `${Math.round(number)} m` : `${count(Math.round(number / 100) / 10)} km`;
