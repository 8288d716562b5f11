// The query above the hits: the image, the examples or the labels.

import { byId, el, icon } from "./dom.js";
import { describeReference, thumbnail } from "./query-images.js";
import { withQuery, examplesOf, kindOf } from "./state.js";
import { count, counted } from "./format.js";
import { unknownLabel } from "./tile.js";

const LABELS_SHOWN = 10;

/** @returns {string} a description of the search, for the title of the page */
export function describeQuery(state) {
  switch (kindOf(state)) {
    case "id":
    case "vector":
      return `Images like ${describeReference(examplesOf(state).like[0]).name}`;
    case "examples": {
      const unlike = state.unlike.length ? `, unlike ${state.unlike.length}` : "";
      if (state.like.length === 1 && state.like[0].startsWith("collection:"))
        return `Images like ${describeReference(state.like[0]).name}${unlike}`;
      return `Images like ${counted(state.like.length, "example")}${unlike}`;
    }
    case "labels":
      return `Images of ${state.label.join(" + ")}`;
    case "place":
      return `Images like the one at ${state.at.replace(",", ", ")}`;
    default:
      return "A look into the archive";
  }
}

/** "102 of 2,100 images carry ship", as soon as it is counted. */
function carriedWords({ label }, found) {
  const names = label.join(" and ");
  if (!found?.carried) return `Near the mean of the images that carry ${names}.`;
  const { images, of } = found.carried;
  return `${count(images)} of ${counted(of, "image")} carry ${names}. Hits are near their mean.`;
}

/** @param {{go: Function, onOpen: (id: string) => void}} acts */
export function makeQuery({ go, onOpen }) {
  const place = byId("query");

  function picture(ref, sign) {
    const { id, name, source } = describeReference(ref);
    const content = [thumbnail(source), sign && el("span", { class: `sign sign-${sign}` }, icon(sign))];
    if (id === null) return el("span", { class: "query-picture", title: name }, ...content);
    const about = {
      class: "query-picture",
      type: "button",
      title: id,
      "aria-label": `Details of ${name}`,
      on: { click: () => onOpen(id) },
    };
    return el("button", about, ...content);
  }

  function removable(state, way, ref) {
    const without = {
      like: state.like,
      unlike: state.unlike,
      [way]: state[way].filter((each) => each !== ref),
    };
    const next = without.like.length ? without : { like: [], unlike: [] };
    return el(
      "span",
      { class: "query-example" },
      picture(ref, way === "like" ? "plus" : "minus"),
      el(
        "button",
        {
          class: "remove",
          type: "button",
          "aria-label": `Remove ${describeReference(ref).name}`,
          on: { click: () => go(withQuery(state, next)) },
        },
        icon("close"),
      ),
    );
  }

  function token(state, label) {
    const rest = state.label.filter((each) => each !== label);
    return el(
      "button",
      {
        class: "chip",
        type: "button",
        "aria-label": `Remove label ${label}`,
        on: { click: () => go(withQuery(state, { label: rest })) },
      },
      el("span", { class: "chip-name" }, label),
      icon("close"),
    );
  }

  function pictures(state, found) {
    if (kindOf(state) === "labels") return null;
    if (kindOf(state) === "place")
      return found?.images.length ? el("div", { class: "query-pictures" }, picture(`id:${found.images[0]}`)) : null;
    if (kindOf(state) !== "examples")
      return el("div", { class: "query-pictures" }, picture(examplesOf(state).like[0]));
    return el(
      "div",
      { class: "query-pictures" },
      ...state.like.map((ref) => removable(state, "like", ref)),
      ...state.unlike.map((ref) => removable(state, "unlike", ref)),
    );
  }

  function labelList({ labels, unknown }) {
    const items = [...labels.map((label) => el("li", {}, el("span", {}, label))), ...unknown.map(unknownLabel)];
    const rest = [...labels, ...unknown.map((label) => `${label}?`)].slice(LABELS_SHOWN);
    if (rest.length)
      items.splice(LABELS_SHOWN, rest.length, el("li", { title: rest.join(", ") }, `+${rest.length}`));
    return el("ul", { class: "labels query-labels", "aria-label": "Labels of the query" }, ...items);
  }

  function words(state, found) {
    const kind = kindOf(state);
    const heading = el("h1", { class: "query-name", title: state.id }, describeQuery(state));
    if (kind === "labels") {
      return [
        heading,
        el("p", { class: "muted small", id: "carried" }, carriedWords(state, found)),
        el("div", { class: "query-tokens" }, ...state.label.map((label) => token(state, label))),
      ];
    }
    if (found === null) return [heading];
    if (found.labels.length) return [heading, labelList(found)];
    const hint = (text) => el("p", { class: "muted small" }, text);
    if (found.unknown.length)
      return [heading, hint("No label is known to be present, so hits have no frame."), labelList(found)];
    return [
      heading,
      hint(kind === "vector" ? "Its labels are not known, so hits have no frame." : "No labels to compare with."),
    ];
  }

  return {
    /**
     * @param {{images: string[], labels: string[], unknown: string[], carried?: {images: number, of: number}}|null}
     *   found of the query; null while a search runs
     */
    show(state, found) {
      place.hidden = kindOf(state) === null;
      if (place.hidden) return place.replaceChildren();
      const back = el(
        "button",
        { class: "button quiet query-clear", type: "button", on: { click: () => go(withQuery(state, {})) } },
        icon("close"),
        "New search",
      );
      return place.replaceChildren(
        ...[pictures(state, found), el("div", { class: "query-words" }, ...words(state, found)), back].filter(
          Boolean,
        ),
      );
    },
  };
}
