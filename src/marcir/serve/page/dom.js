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

/** An element of a drawing. @param {Record<string, string|number>} [attributes] */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
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
  map: "M9 4.5 3.5 7v12.5L9 17l6 2.5 5.5-2.5V4.5L15 7ZM9 4.5V17M15 7v12.5",
  rectangle: "M5 7h14v10H5ZM5 7h.01M19 7h.01M5 17h.01M19 17h.01",
  pin: "M12 21s6.5-6 6.5-11a6.5 6.5 0 0 0-13 0c0 5 6.5 11 6.5 11ZM12 12.3a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6Z",
  view: "M4 9V5h4M16 5h4v4M20 15v4h-4M8 19H4v-4M9 12h6",
  fit: "M4 9V5h4M16 5h4v4M20 15v4h-4M8 19H4v-4M9.5 9.5h5v5h-5Z",
  copy: "M9 9h10v10H9ZM5 15V5h10",
  dense: "M4 4h6v6H4ZM14 4h6v6h-6ZM4 14h6v6H4ZM14 14h6v6h-6Z",
  collection: "M8 4h12v12H8ZM4 8v12h12",
  edit: "M4 20l1-4L16.5 4.5l3 3L8 19ZM14 7l3 3",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  images: "M4 4h7v7H4ZM13 4h7v7h-7ZM4 13h7v7H4ZM13 13h7v7h-7Z",
  similarity: "M7 8h.01M10 6h.01M9 10h.01M16 8h.01M18 11h.01M14.5 11h.01M8 17h.01M11 16h.01M15.5 17h.01M17.5 15.5h.01M3.5 3.5v17h17",
  label: "M4 5v6.5l8.5 8.5 7-7L11 4.5H4.5ZM8 8.5h.01",
  suggest: "M12 3v3M12 18v3M3 12h3M18 12h3M12 8.5l1.2 2.3 2.3 1.2-2.3 1.2L12 15.5l-1.2-2.3L8.5 12l2.3-1.2Z",
  train: "M4 19.5h16M5.5 15.5l4.5-5 3.5 3 5-7M18.5 10.5v-4h-4",
  lasso: "M12 14.5c-5 0-8.5-2-8.5-5s3.5-5 8.5-5 8.5 2 8.5 5-3.5 5-8.5 5ZM7.5 13.5c-1.5 1.5-1 3.5.5 4s2.5 1 2 3",
  undo: "M8.5 5 4.5 9l4 4M5 9h9a5 5 0 0 1 0 10h-4",
  full: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
  half: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
  empty: "M12 19a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z",
};

/** An icon; decoration only, so there is always a text beside it or in the name of its button. */
export function icon(name) {
  const about = { viewBox: "0 0 24 24", "aria-hidden": "true", class: `icon icon-${name}` };
  const made = svg("svg", about, svg("path", { d: SHAPES[name] }));
  if (name === "half") made.append(svg("path", { d: "M12 5a7 7 0 0 0 0 14Z", class: "filled" }));
  return made;
}

/** The button that closes a dialog. */
export const closeButton = (act) =>
  el(
    "button",
    { class: "icon-button close", type: "button", "aria-label": "Close", title: "Close (Esc)", on: { click: act } },
    icon("close"),
  );

/**
 * The button to the previous or next image.
 * @param {"left"|"right"} sign
 * @param {(() => void)|false|undefined} act none: there is no such image
 */
export const stepButton = (sign, words, act) =>
  el(
    "button",
    {
      class: `icon-button detail-${sign}`,
      type: "button",
      "aria-label": words,
      title: words,
      disabled: !act,
      data: { keep: sign },
      on: { click: act || (() => undefined) },
    },
    icon(sign),
  );

/** Draws the icons of index.html. */
export function drawIcons() {
  for (const place of document.querySelectorAll("[data-icon]"))
    place.replaceChildren(icon(place.dataset.icon));
}
