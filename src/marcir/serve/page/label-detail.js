// The labels of one image in its details: their states, where they come from, how to change them, and their history.

import * as annotations from "./annotations-api.js";
import { el } from "./dom.js";
import { labelNameField } from "./label-edits.js";
import { NOT_ABSENT, STATES, labelRow, originOf, stateBadge, stateOf } from "./label-states.js";

/**
 * @param {any} image the response of /api/image
 * @param {{edits: any, onChanged: () => void}} acts `onChanged`: after a change, with the image to be loaded again
 */
export function labelDetail(image, { edits, onChanged }) {
  const set = async (label, state) => {
    await edits.set([{ label, state, ids: [image.id] }]);
    onChanged();
  };
  const row = (label) => {
    const state = stateOf(image, label, edits.isKnown);
    return labelRow({
      label,
      state,
      origin: originOf(image, label, state),
      onSet: (next) => set(label, next),
    });
  };
  // Labels that somebody spoke of; all others are a field away.
  const rows = [...new Set([...image.labels, ...Object.keys(image.page_labels)])].sort().map(row);
  return el(
    "section",
    { class: "label-detail", "aria-label": "Labels of this image" },
    el("h3", {}, "Labels"),
    rows.length > 0 && el("ul", { class: "label-rows" }, ...rows),
    labelNameField({
      id: "detail-label",
      words: "Label, known or new",
      actions: STATES.map((state) => [stateBadge(state), (name) => set(name, state)]),
    }),
    el("p", { class: "muted small" }, `Page: stated here. Table: from the archive. ${NOT_ABSENT}`),
    history(image.id),
  );
}

function history(id) {
  const place = el("div", {});
  const made = el("details", { class: "label-history" }, el("summary", {}, "History"), place);
  made.addEventListener("toggle", async () => {
    if (!made.open) return;
    try {
      const { changes } = await annotations.history(id);
      place.replaceChildren(
        changes.length
          ? list(changes)
          : el("p", { class: "muted small" }, "Nothing was changed on this page."),
      );
    } catch (error) {
      place.replaceChildren(el("p", { class: "form-problem", role: "alert" }, error.message));
    }
  });
  return made;
}

function list(changes) {
  const time = (text) => new Date(text).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  const state = (name) =>
    name === "cleared" || name === null ? el("span", { class: "muted" }, "withdrawn") : stateBadge(name);
  return el(
    "ol",
    { class: "small" },
    ...changes.map((each) =>
      el(
        "li",
        {},
        el("span", { class: "label-name" }, each.label),
        state(each.state),
        el(
          "span",
          { class: "muted" },
          `${each.undoes === null ? "" : "undo, "}${each.author === "token" ? "with the token, " : ""}`,
          el("time", { datetime: each.time }, time(each.time)),
        ),
      ),
    ),
  );
}
