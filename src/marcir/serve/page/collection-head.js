// The open collection, above its images: how many they are, and what can be done with it.

import * as api from "./api.js";
import { byId, el, icon } from "./dom.js";
import { downloadMenu } from "./exports.js";
import { count, counted } from "./format.js";
import { showMissing } from "./missing-images.js";
import { collectionRef } from "./query-images.js";
import { withChanges, withQuery } from "./state.js";

/** @param {{go: Function, collections: ReturnType<import("./collections.js").makeCollections>}} acts */
export function makeCollectionHead({ go, collections }) {
  const place = byId("collection");
  const newest = new api.Newest();

  const button = (sign, words, act, quiet = false) =>
    el(
      "button",
      { class: quiet ? "button quiet" : "button", type: "button", on: { click: act } },
      icon(sign),
      words,
    );

  function draw(state, answer, archive) {
    const name = state.collection;
    const likeThese = withQuery({ ...state, collection: null }, { like: [collectionRef(name)] });
    const removeMissing = collections.isEditable() ? (ids) => collections.removeMissing(name, ids) : null;
    const files = [
      ["CSV", api.collectionExportUrl(name, "csv")],
      ...(archive.has_bbox ? [["GeoJSON", api.collectionExportUrl(name, "geojson")]] : []),
      ["Paths, one per line", api.collectionExportUrl(name, "paths")],
    ];
    place.replaceChildren(
      el(
        "div",
        { class: "collection-words" },
        el("h2", { class: "collection-title" }, icon("collection"), el("span", {}, name)),
        el(
          "div",
          { class: "collection-about small" },
          el("p", { class: "muted", id: "collection-count" }, answer ? words(answer) : ""),
          answer?.missing > 0 && button("info", "Which ones", () => showMissing(name, removeMissing), true),
        ),
      ),
      el(
        "div",
        { class: "tools" },
        button("search", "More like these", () => go(likeThese, { top: true })),
        downloadMenu(files),
        ...(collections.isEditable()
          ? [
              button("edit", "Rename", () => collections.rename(name)),
              button("trash", "Delete", () => collections.remove(name)),
            ]
          : []),
        button("close", "Close", () => go(withChanges(state, { collection: null }), { top: true }), true),
      ),
    );
  }

  const words = ({ collection, missing }) =>
    missing
      ? `${counted(collection.images, "image")}, of which ${count(missing)} ${missing === 1 ? "is" : "are"} no longer in the archive`
      : counted(collection.images, "image");

  return {
    async show(state, archive) {
      const signal = newest.next();
      place.hidden = state.collection === null;
      if (place.hidden) {
        place.replaceChildren();
        return;
      }
      if (place.dataset.name !== state.collection) draw(state, null, archive);
      place.dataset.name = state.collection;
      try {
        const answer = await api.collection(state.collection, { signal });
        if (!signal.aborted) draw(state, answer, archive);
      } catch (error) {
        if (error.name === "AbortError") return;
        place.hidden = true; // the list of images has the same filter and shows the error
      }
    },
  };
}
