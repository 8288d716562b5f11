// The three states of a label of an image: present, absent, unknown. Each has a sign, a word and a style of
// line; no state is shown by colour alone.

import { el, icon, screenReaderText } from "./dom.js";

export const STATES = ["present", "absent", "unknown"];
const SIGNS = { present: "check", absent: "close", unknown: "help" };
export const NOT_ABSENT = "What nobody has labelled is unknown, not absent.";

/** What the page says of a label of an image; labels may be called like properties of any object. */
const onPage = (image, label) => (Object.hasOwn(image.page_labels, label) ? image.page_labels[label] : undefined);

/**
 * What is known of a label of an image.
 * @param {{labels: string[], unknown: string[], page_labels: Record<string, string>,
 *   table_labels: {labels: string[], unknown: string[], labelled: boolean}}} image merged labels, and those of page and table
 * @param {(label: string) => boolean} isKnown whether the archive has this label at all
 * @returns {"present"|"absent"|"unknown"}
 */
export function stateOf(image, label, isKnown) {
  if (image.labels.includes(label)) return "present";
  if (onPage(image, label) === "absent") return "absent";
  return !image.table_labels.labelled || image.unknown.includes(label) || !isKnown(label) ? "unknown" : "absent";
}

/** Sign and word of a state. */
export const stateBadge = (state) => el("span", { class: `state state-${state}` }, icon(SIGNS[state]), state);

/**
 * Three buttons, of which one is pressed, and one that withdraws what the page says.
 * @param {{label: string, state: string|null, onPage: boolean, onSet: (state: string) => void}} about
 */
function stateButtons({ label, state, onPage, onSet }) {
  return el(
    "span",
    { class: "states", role: "group", "aria-label": label },
    ...STATES.map((each) =>
      el(
        "button",
        {
          class: `state-button state-${each}`,
          type: "button",
          "aria-pressed": String(each === state),
          "aria-label": `${label}: ${each}`,
          title: each,
          data: { state: each },
          on: { click: () => onSet(each) },
        },
        icon(SIGNS[each]),
        el("span", { class: "state-word" }, each),
      ),
    ),
    el(
      "button",
      {
        class: "state-button state-cleared",
        type: "button",
        disabled: !onPage,
        "aria-label": `${label}: withdraw what the page says`,
        title: "Withdraw what was said on this page; the archive's table applies again",
        on: { click: () => onSet("cleared") },
      },
      icon("undo"),
    ),
  );
}

/**
 * Where the state of a label comes from.
 * @param {{page_labels: Record<string, string>, table_labels: {labels: string[], unknown: string[]}}} image
 * @returns {{page: boolean, words: string}}
 */
export function originOf(image, label, state) {
  const page = onPage(image, label);
  const { labels, unknown } = image.table_labels;
  const table = labels.includes(label) ? "present" : unknown.includes(label) ? "unknown" : null;
  if (page === undefined)
    return { page: false, words: state === "unknown" && table === null ? "not labelled" : "table" };
  return { page: true, words: table === null || table === page ? "page" : `page; table: ${table}` };
}

/** A row of a list of labels: a key, the name, where its state comes from, and the buttons. */
export function labelRow({ key = null, label, state, origin, onSet, onRemove = null }) {
  return el(
    "li",
    { class: "label-row", data: { state: state ?? "", label } },
    key !== null && el("kbd", { "aria-hidden": "true" }, String(key)),
    el(
      "span",
      { class: "label-row-name" },
      el("span", { class: "label-name", title: label }, label),
      state !== null && screenReaderText(` ${state}, `),
      state !== null && el("span", { class: "label-origin muted" }, origin.words),
    ),
    stateButtons({ label, state, onPage: origin.page, onSet }),
    onRemove &&
      el(
        "button",
        {
          class: "icon-button",
          type: "button",
          "aria-label": `Take ${label} off the keys`,
          title: "Take it off the keys; no label changes",
          on: { click: onRemove },
        },
        icon("minus"),
      ),
  );
}
