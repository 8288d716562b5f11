// One image of the grid: similarity, labels that it shares with the query, and buttons.

import { thumbnailUrl } from "./api.js";
import { el, screenReaderText, icon } from "./dom.js";
import { thumbnail } from "./query-images.js";
import { shortName, similarity, windowOf } from "./format.js";

const LABELS_SHOWN = 5;
/** More unknown labels of a tile are only counted: with few labelled images nearly all are unknown. */
const UNKNOWN_SHOWN = 2;
const NAME_END = 12;
const SHORT_NAME_END = 7; // beside the buttons
const NAME_START = 5; // letters without which a name is too short to be shortened in its middle
const AGREEMENTS = { all: "full", some: "half", none: "empty", open: "help" };
export const MAY_SHARE = "may share a label";

/**
 * How the labels of a hit agree with those of the query: it has all of them, some, or none; or that is open,
 * because they share none that is known but a label of one is unknown for the other, or nobody labelled the hit.
 * @param {{labels: string[], unknown: string[]}} query
 * @returns {{level: "all"|"some"|"none"|"open", words: string}|null} null where the query has no labels
 */
export function agreementOf(hit, query) {
  const wanted = query.labels.length;
  if (!wanted) return null;
  const shared = hit.shared.length;
  const unknown = query.labels.filter((label) => hit.unknown.includes(label)).length;
  if (shared === 0 && (!hit.labelled || unknown || hit.labels.some((label) => query.unknown.includes(label))))
    return { level: "open", words: MAY_SHARE };
  if (shared === 0) return { level: "none", words: "no shared label" };
  if (shared >= wanted) return { level: "all", words: wanted === 1 ? "the label" : `all ${shared} labels` };
  return { level: "some", words: `${shared} of ${wanted} labels${unknown ? `, ${unknown} unknown` : ""}` };
}

/** Icon and text of an agreement; the style of the frame shows the same. */
export function agreementBadge({ level, words }) {
  return el("span", { class: `agreement agreement-${level}` }, icon(AGREEMENTS[level]), words);
}

/** Number and bar. */
export function similarityBar(value) {
  const fill = el("span", { class: "bar-fill" });
  fill.style.inlineSize = `${100 * Math.min(1, Math.max(0, value))}%`;
  return el(
    "span",
    { class: "similarity" },
    screenReaderText("similarity "),
    el("span", { class: "number" }, similarity(value)),
    el("span", { class: "bar", "aria-hidden": "true" }, fill),
  );
}

/** Labels; those that the query has, too, come first and are marked. Unknown ones come last, with a ?. */
export function labelList(hit, most = Infinity) {
  const shared = new Set(hit.shared);
  const present = [...hit.labels].sort((a, b) => shared.has(b) - shared.has(a));
  const items = present.map((label) =>
    shared.has(label)
      ? el("li", { class: "shared" }, icon("check"), el("span", {}, label), screenReaderText(" (shared)"))
      : el("li", {}, el("span", {}, label)),
  );
  const counted = most !== Infinity && hit.unknown.length > UNKNOWN_SHOWN;
  if (counted) {
    items.splice(most, Infinity, ...moreLabels(present.slice(most)));
    const title = `Unknown: ${hit.unknown.join(", ")}`;
    items.push(el("li", { class: "unknown", title }, `${hit.unknown.length} unknown`));
    return el("ul", { class: "labels", "aria-label": "Labels" }, ...items);
  }
  items.push(...hit.unknown.map(unknownLabel));
  if (items.length > most) {
    const hidden = [...present, ...hit.unknown.map((label) => `${label}?`)].slice(most);
    items.splice(most, hidden.length, ...moreLabels(hidden));
  }
  return el("ul", { class: "labels", "aria-label": "Labels" }, ...items);
}

const moreLabels = (names) =>
  names.length ? [el("li", { class: "more", title: names.join(", ") }, `+${names.length}`)] : [];

/** A label of which it is unknown whether an image has it. */
export function unknownLabel(label) {
  return el(
    "li",
    { class: "unknown", title: `Unknown whether the image has the label ${label}` },
    el("span", {}, label),
    el("span", { "aria-hidden": "true" }, "?"),
    screenReaderText(" (unknown)"),
  );
}

/** The pair of buttons that makes an image an example or a counter-example. */
export function markButtons(id, onMark) {
  const button = (mark, sign, words) =>
    el(
      "button",
      {
        class: "mark",
        type: "button",
        "aria-pressed": "false",
        "aria-label": `${words}: ${shortName(id)}`,
        title: `${words} (${sign === "plus" ? "+" : "-"})`,
        data: { mark },
        on: { click: () => onMark(id, mark) },
      },
      icon(sign),
    );
  return [button("like", "plus", "More like this"), button("unlike", "minus", "Less like this")];
}

/** A name that is shortened in its middle where the tile is narrow: names often differ at their ends. */
function shortenedName(id, ending = NAME_END) {
  const name = windowOf(id)?.scene ?? shortName(id);
  const end = name.length - ending;
  const parts =
    end < NAME_START
      ? [el("span", {}, name)]
      : [el("span", { class: "tile-name-start" }, name.slice(0, end)), el("span", {}, name.slice(end))];
  return el("span", { class: "tile-name", title: id }, ...parts);
}

/** Where a window is in its scene, and its date; null for an image that is a file. */
function windowPlace({ id, date }) {
  const corner = windowOf(id)?.corner;
  return corner && el("p", { class: "tile-name" }, el("span", {}, [corner, date].filter(Boolean).join(" · ")));
}

/** The check mark that selects an image; with the shift key, the images from the last selected one to it. */
function selectButton(hit, name, onSelect) {
  return el(
    "button",
    {
      class: "check",
      type: "button",
      "aria-pressed": "false",
      "aria-label": `Select ${name}`,
      title: "Select (x); with shift a range",
      on: { click: (event) => onSelect(hit.id, { range: event.shiftKey }) },
    },
    icon("check"),
  );
}

function detailsButton(hit, name, onOpen) {
  return el(
    "button",
    {
      class: "mark",
      type: "button",
      "aria-label": `Details of ${name}`,
      title: "Details (o)",
      on: { click: () => onOpen(hit.id) },
    },
    icon("info"),
  );
}

/**
 * @param {{place: number|null, query: {labels: string[], unknown: string[]}, pageLabels: string[], href: string,
 *   onSearch: Function, onMark: Function, onOpen: Function, onSelect: Function, isSelecting: () => boolean}} context
 *   `pageLabels`: those that the archive's table does not have
 */
export function tile(
  hit,
  { place, query, pageLabels, href, onSearch, onMark, onOpen, onSelect, isSelecting },
) {
  const agreement = agreementOf(hit, query);
  // What was only given on the page is unknown of nearly all images, so it is shown where the query has it.
  const unknown = hit.unknown.filter((label) => !pageLabels.includes(label) || query.labels.includes(label));
  const name = shortName(hit.id);
  const link = el(
    "a",
    { class: "tile-link", href, title: hit.id, "aria-label": `Search with ${name}`, draggable: "false" },
    el(
      "span",
      { class: "frame", data: agreement ? { agreement: agreement.level } : {} },
      thumbnail(thumbnailUrl(hit.id), { loading: "lazy" }),
    ),
  );
  link.addEventListener("click", (event) => {
    const range = event.shiftKey && isSelecting();
    if (!range && (event.ctrlKey || event.metaKey || event.shiftKey)) return; // a new tab or window, as everywhere
    event.preventDefault();
    if (range) onSelect(hit.id, { range });
    else onSearch(hit.id);
  });
  return el(
    "li",
    { class: "tile", data: { id: hit.id } },
    el(
      "div",
      { class: "tile-picture" },
      link,
      selectButton(hit, name, onSelect),
      place !== null && el("span", { class: "place", "aria-hidden": "true" }, String(place)),
      el("span", { class: "mark-word" }),
    ),
    el(
      "div",
      { class: "tile-words" },
      el(
        "div",
        { class: "tile-row" },
        hit.similarity === null ? shortenedName(hit.id, SHORT_NAME_END) : similarityBar(hit.similarity),
        el("span", { class: "tile-actions" }, ...markButtons(hit.id, onMark), detailsButton(hit, name, onOpen)),
      ),
      agreement && agreementBadge(agreement),
      hit.labels.length + unknown.length > 0 && labelList({ ...hit, unknown }, LABELS_SHOWN),
      hit.similarity !== null && shortenedName(hit.id),
      windowPlace(hit),
    ),
  );
}
