// Names and thumbnails of the images of a query. The URL has only the vector of an uploaded image, so its
// thumbnail is kept here until the tab is closed; for others, a shared URL shows a placeholder.

import { thumbnailUrl } from "./api.js";
import { el, icon } from "./dom.js";
import { shortName } from "./format.js";

const PREFIX = "marcir:picture:";
const uploaded = new Map();

/** @param {{thumbnail: string, name: string}} picture */
export function remember(vector, picture) {
  uploaded.set(vector, picture);
  try {
    sessionStorage.setItem(PREFIX + vector, JSON.stringify(picture));
  } catch {
    // storage is full or disabled: the thumbnail is kept until the page is reloaded
  }
}

function storedThumbnail(vector) {
  if (uploaded.has(vector)) return uploaded.get(vector);
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + vector) ?? "null");
  } catch {
    return null;
  }
}

export const idRef = (id) => `id:${id}`;
export const collectionRef = (name) => `collection:${name}`;
export const vectorRef = (vector) => `vector:${vector}`;

/** @returns {{id: string|null, name: string, source: string|null}} the image of a reference */
export function describeReference(ref) {
  if (ref.startsWith("id:")) {
    const id = ref.slice(3);
    return { id, name: shortName(id), source: thumbnailUrl(id) };
  }
  if (ref.startsWith("collection:"))
    return { id: null, name: `the collection ${ref.slice("collection:".length)}`, source: null };
  const known = storedThumbnail(ref.replace(/^vector:/, ""));
  if (!known?.thumbnail?.startsWith?.("data:image/"))
    return { id: null, name: "an uploaded image", source: null };
  return { id: null, name: String(known.name), source: known.thumbnail };
}

/** An image, or a placeholder where it cannot be shown. */
export function thumbnail(source, about = {}) {
  if (source === null) return el("span", { class: "no-picture" }, icon("image"));
  const made = el("img", { src: source, alt: "", draggable: "false", decoding: "async", ...about });
  made.addEventListener("error", () => made.replaceWith(el("span", { class: "no-picture" }, icon("broken"))));
  return made;
}
