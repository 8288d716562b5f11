// The start of the page: what the archive is, how to search it, and its most common labels.

import { byId, el, icon } from "./dom.js";
import { bytes, count, counted } from "./format.js";

const LABELS_SHOWN = 10;

/** @param {{onLabel: (name: string) => void, onChoose: () => void}} acts */
export function makeWelcome({ onLabel, onChoose }) {
  const place = byId("welcome");

  const chip = ({ name, count: carried }) =>
    el(
      "li",
      {},
      el(
        "button",
        { class: "chip", type: "button", title: `Search for ${name}`, on: { click: () => onLabel(name) } },
        el("span", { class: "chip-name" }, name),
        el("span", { class: "number muted" }, count(carried)),
      ),
    );

  function labelCloud(labels) {
    const rest = labels.length - LABELS_SHOWN;
    return el(
      "div",
      { class: "welcome-labels" },
      el("h2", {}, "Or start from a label"),
      el("ul", { class: "chips" }, ...labels.slice(0, LABELS_SHOWN).map(chip)),
      rest > 0 && el("p", { class: "muted small" }, `and ${counted(rest, "more label")}: press / and type`),
    );
  }

  return {
    build(archive) {
      const labels = archive.labels.filter(({ count: carried }) => carried > 0);
      const limit = bytes(archive.max_upload_bytes);
      const shown = archive.images === 1 ? "it shows" : "they show";
      place.replaceChildren(
        ...[
          el(
            "div",
            { class: "welcome-ask" },
            el("h1", {}, `Search ${counted(archive.images, "image")} by what ${shown}`),
            el(
              "button",
              { class: "welcome-drop", type: "button", on: { click: onChoose } },
              icon("image"),
              el("strong", {}, "Drop an image here, paste it, or choose a file"),
              el("span", { class: "muted" }, `up to ${limit}; it is not kept`),
            ),
            el("p", { class: "muted" }, "Or click any image below to find others like it."),
          ),
          labels.length > 0 && labelCloud(labels),
        ].filter(Boolean),
      );
    },
    show(visible) {
      place.hidden = !visible;
    },
  };
}
