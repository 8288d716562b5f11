// What is shown for the images of a query. An uploaded one exists in the URL only as its vector, so its
// thumbnail is remembered here for as long as the tab lives; whoever opens a shared address sees a
// placeholder.

import { thumbnailUrl } from "./api.js";
import { el, icon } from "./dom.js";
import { shortName } from "./words.js";

const PREFIX = "marcir:picture:";
const held = new Map();

/** @param {{thumbnail: string, name: string}} picture */
export function remember(vector, picture) {
  held.set(vector, picture);
  try {
    sessionStorage.setItem(PREFIX + vector, JSON.stringify(picture));
  } catch {
    // storage is full or switched off: the thumbnail lives until the page is loaded again
  }
}

function recalled(vector) {
  if (held.has(vector)) return held.get(vector);
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + vector) ?? "null");
  } catch {
    return null;
  }
}

export const idRef = (id) => `id:${id}`;
export const vectorRef = (vector) => `vector:${vector}`;

/** @returns {{id: string|null, name: string, source: string|null}} what a reference stands for */
export function pictured(ref) {
  if (ref.startsWith("id:")) {
    const id = ref.slice(3);
    return { id, name: shortName(id), source: thumbnailUrl(id) };
  }
  const known = recalled(ref.replace(/^vector:/, ""));
  if (!known?.thumbnail?.startsWith?.("data:image/"))
    return { id: null, name: "an uploaded image", source: null };
  return { id: null, name: String(known.name), source: known.thumbnail };
}

/** An image that says so where it cannot be shown. */
export function thumbnail(source, about = {}) {
  if (source === null) return el("span", { class: "no-picture" }, icon("image"));
  const made = el("img", { src: source, alt: "", draggable: "false", decoding: "async", ...about });
  made.addEventListener("error", () => made.replaceWith(el("span", { class: "no-picture" }, icon("broken"))));
  return made;
}
