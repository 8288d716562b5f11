// Everything to work with beside searching: the map of similarity, labelling, suggestions, training.

import { byId, el, icon } from "./dom.js";
import { activeFilters } from "./filters.js";
import { makeEmbeddingMap } from "./embedding-map.js";
import { labelDetail } from "./label-detail.js";
import { makeLabelEdits } from "./label-edits.js";
import { makeLabelSelection } from "./label-selection.js";
import { makeLabelling } from "./labelling.js";
import { makeRetrain } from "./retrain.js";
import { makeSuggestions } from "./suggestions.js";

/** Why a view that the address names is not there. */
const REASONS = {
  similarity: "This archive has no similarity map: marcir index computes it. These are the images.",
  suggestions: "Suggestions need marcir serve --allow-edits. These are the images.",
};

/**
 * @param {{getState: Function, go: Function, address: (state: any) => string, selection: any,
 *   getShown: () => string[], focusedId: () => string|null, nextImages: (offset: number) => Promise<string[]>, getTotal: () => number|null,
 *   onOpen: (id: string) => void, onLabelled: () => void, onFilters: () => void, onToken: Function}} page
 *   `nextImages`: ids of the hits after so many; `onLabelled`: labels have changed, and hits show them
 */
export function makeWork({
  getState,
  go,
  address,
  selection,
  getShown,
  focusedId,
  nextImages,
  getTotal,
  onOpen,
  onLabelled,
  onFilters,
  onToken,
}) {
  const place = byId("view");
  const nav = byId("views");
  let archive = null;
  let changed = false;
  let shown = null; // the view that is shown; null for the images

  const filterLine = el("div", { class: "view-filters" });
  const filterButton = el(
    "button",
    { class: "button narrow-filters", type: "button", on: { click: onFilters } },
    icon("filter"),
    "Filters",
  );
  const edits = makeLabelEdits({ onToken });
  const retrain = makeRetrain();
  const labelling = makeLabelling({ edits, onRetrain: retrain.open, onClose: follow });
  const labelSelection = makeLabelSelection({ edits, selection, onDone: follow });
  const views = {
    similarity: makeEmbeddingMap({ getState, go, selection, onOpen }),
    suggestions: makeSuggestions({ getState, go, edits, onOpen, onRetrain: retrain.open }),
  };
  edits.onChange(() => {
    changed = true;
    views.similarity.forget();
  });

  /** Shows labels that were changed since the images were loaded. */
  async function follow() {
    await edits.settled();
    if (!changed) return;
    changed = false;
    onLabelled();
  }

  const offered = () => [
    [null, "images", "Images", true],
    ["similarity", "similarity", "Similarity map", archive.has_map],
    ["suggestions", "suggest", "Suggestions", archive.editable],
  ];

  function link(view, sign, words) {
    const target = { ...getState(), view };
    const click = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go({ ...getState(), view }, { top: true });
    };
    const here = shown === view;
    return el(
      "a",
      {
        href: address(target),
        "aria-current": here && "page",
        "aria-label": words,
        title: words,
        on: { click },
      },
      icon(sign),
      el("span", { class: "view-word", "aria-hidden": "true" }, words),
    );
  }

  function drawNav() {
    const links = offered().filter(([, , , there]) => there);
    const label = el(
      "button",
      {
        type: "button",
        id: "label-images",
        "aria-label": "Label images",
        title: "Label images, one at a time (t)",
        on: { click: labelImages },
      },
      icon("label"),
      el("span", { class: "view-word", "aria-hidden": "true" }, "Label"),
    );
    nav.hidden = links.length < 2 && !archive.editable;
    nav.replaceChildren(
      ...links.map(([view, sign, words]) => link(view, sign, words)),
      archive.editable ? label : "",
    );
  }

  /** Goes through the selected images, else through those of the search. */
  function labelImages() {
    if (!archive?.editable) return;
    const chosen = selection.ids();
    if (chosen.length) labelling.open({ images: chosen });
    else labelling.open({ images: getShown(), first: focusedId(), rest: nextImages, size: getTotal() });
  }

  return {
    isEditable: () => archive?.editable ?? false,
    label: labelImages,
    closeLabelling: labelling.close,
    /** The button for the bar of the selection. */
    labelSelection: labelSelection.open,
    /** The part of the details of an image that is about its labels; null where nothing may be changed. */
    labelDetail: (image, onChanged) => (archive?.editable ? labelDetail(image, { edits, onChanged }) : null),
    follow,
    build(about) {
      archive = about;
      edits.build(archive);
      labelling.build(archive);
      drawNav();
    },
    /** @returns {boolean} whether something else than the images is shown */
    show(state) {
      shown = offered().some(([name, , , there]) => name === state.view && there) ? state.view : null;
      drawNav();
      byId("results").classList.toggle("with-view", shown !== null);
      place.hidden = state.view === null;
      if (shown === null) {
        const reason = REASONS[state.view];
        place.replaceChildren(reason ? el("p", { class: "muted", role: "status" }, reason) : "");
        if (changed) follow();
        return false;
      }
      if (!place.contains(views[shown].element)) place.replaceChildren(filterLine, views[shown].element);
      filterLine.replaceChildren(filterButton, activeFilters(state, go) ?? "");
      views[shown].show(archive);
      return true;
    },
  };
}
