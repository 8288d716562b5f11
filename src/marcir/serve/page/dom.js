// Creates elements. Ids, labels and metadata are untrusted text: everything goes through text nodes and
// setAttribute, and nothing in this page parses a string as HTML.

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on`: listeners, `data`: dataset; null and false are left out
 * @param {...(Node|string|null|undefined|false)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "data") Object.assign(made.dataset, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Text for screen readers only. */
export const screenReaderText = (text) => el("span", { class: "for-readers" }, text);

const SHAPES = {
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM15.5 15.5 20 20",
  image:
    "M4 6.5A1.5 1.5 0 0 1 5.5 5h13A1.5 1.5 0 0 1 20 6.5v11a1.5 1.5 0 0 1-1.5 1.5h-13A1.5 1.5 0 0 1 4 17.5ZM4.5 16l4.5-4.5 4 4 2.5-2.5 4 4M15 9.5h.01",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 11v5M12 8h.01",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14.5 5 8 12l6.5 7",
  right: "M9.5 5 16 12l-6.5 7",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  auto: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 3v18M12 7l5.5-1.5M12 12h9M12 17l5.5 1.5",
  filter: "M4 6h16M7 12h10M10 18h4",
  download: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14",
  shuffle: "M4 7h3.5l8 10H20M4 17h3.5l2.5-3M13.5 9l2-2H20M17.5 4.5 20 7l-2.5 2.5M17.5 14.5 20 17l-2.5 2.5",
  check: "M5 12.5l4.5 4.5L19 7.5",
  help: "M9 9.2a3 3 0 1 1 4.3 2.7c-.9.5-1.3 1.1-1.3 2.1M12 17.5h.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  alert: "M12 4 2.8 19.5h18.4ZM12 10v4.5M12 17h.01",
  broken:
    "M4 6.5A1.5 1.5 0 0 1 5.5 5h13A1.5 1.5 0 0 1 20 6.5v11a1.5 1.5 0 0 1-1.5 1.5h-13A1.5 1.5 0 0 1 4 17.5ZM4 4l16 16",
  full: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
  half: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
  empty: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
};

/** An icon; decoration only, so there is always a text beside it or in the name of its button. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.append(path(SHAPES[name]));
  if (name === "half") svg.append(path("M12 5a7 7 0 0 0 0 14Z", "filled"));
  return svg;
}

function path(d, kind = "") {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", d);
  if (kind) line.setAttribute("class", kind);
  return line;
}

/** Draws the icons of index.html. */
export function drawIcons() {
  for (const place of document.querySelectorAll("[data-icon]"))
    place.replaceChildren(icon(place.dataset.icon));
}
