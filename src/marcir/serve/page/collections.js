// Collections: images that are kept under a name. The list in the side column, and all that changes one.

import * as api from "./api.js";
import { confirmed, named } from "./collection-dialog.js";
import { el, icon } from "./dom.js";
import { count, counted } from "./format.js";
import { notice } from "./notices.js";
import { withChanges } from "./state.js";

/**
 * @param {{getState: () => import("./state.js").State, go: Function,
 *   selection: ReturnType<import("./selection.js").makeSelection>, onChange: () => void, onToken: Function}} acts
 *   `onChange`: after members of the open collection have changed
 */
export function makeCollections({ getState, go, selection, onChange, onToken }) {
  const list = el("ul", { class: "collection-list" });
  const hint = el("p", { class: "muted small" });
  const element = el(
    "section",
    { class: "side-part", id: "collections", hidden: true },
    el("div", { class: "side-head" }, el("h2", {}, "Collections")),
    list,
    hint,
  );
  const newest = new api.Newest();
  let known = [];
  let editable = false;

  function draw() {
    const open = getState().collection;
    element.hidden = !editable && !known.length;
    hint.hidden = known.length > 0;
    hint.textContent = "Select images and add them to a collection to keep them.";
    list.hidden = !known.length;
    list.replaceChildren(...known.map((each) => el("li", {}, row(each, each.name === open))));
  }

  const row = ({ name, images }, open) =>
    el(
      "button",
      {
        class: "collection-row",
        type: "button",
        "aria-pressed": String(open),
        title: name,
        on: { click: () => go(withChanges(getState(), { collection: open ? null : name }), { top: true }) },
      },
      icon("collection"),
      el("span", { class: "collection-name" }, name),
      el("span", { class: "number muted" }, count(images)),
    );

  async function load() {
    const signal = newest.next();
    try {
      const found = await api.collections({ signal });
      if (signal.aborted) return;
      known = found.collections;
      draw();
    } catch (error) {
      if (error.name !== "AbortError" && error.status !== 401) console.warn(error.message);
    }
  }

  /** Sends a change; afterwards the list is that of the service, whoever else has changed it. */
  async function change(send, { again }) {
    try {
      const done = await send();
      await load();
      return done;
    } catch (error) {
      if (error.status === 401) onToken(again);
      else {
        notice(error.message, { problem: true });
        load(); // somebody else may have made or deleted one
      }
      return null;
    }
  }

  async function keep(name, isNew, selected) {
    const send = () => (isNew ? api.createCollection(name, selected) : api.addToCollection(name, selected));
    const done = await change(send, { again: () => keep(name, isNew, selected) });
    if (done === null) return;
    const there = isNew ? "" : `; ${count(done.collection.images)} are in it`;
    notice(`${counted(done.changed, "image")} added to ${name}${there}.`, {
      action: "Show",
      act: () => go(withChanges(getState(), { collection: name }), { top: true }),
    });
    selection.clear();
    if (getState().collection === name) onChange();
  }

  /** Asks for a collection, and adds the selected images to it. */
  async function addSelected() {
    if (!editable || selection.isEmpty()) return;
    const selected = selection.asSelection();
    const size = selection.size();
    const chosen = await named({
      heading: `Add ${counted(size, "image")} to a collection`,
      label: "Name of a new one",
      action: "Create and add",
      names: known,
      newNames: load().then(() => known),
    });
    if (chosen) keep(chosen.name, chosen.isNew, selected);
  }

  async function removeSelected() {
    const name = getState().collection;
    const selected = selection.asSelection();
    if (!editable || name === null || selected === null) return;
    if (selection.isFilter()) {
      const sure = await confirmed({
        heading: `Remove ${counted(selection.size(), "image")} from ${name}?`,
        text: "The images themselves stay in the archive.",
        action: "Remove",
      });
      if (!sure) return;
    }
    const done = await change(() => api.removeFromCollection(name, selected), { again: removeSelected });
    if (done === null) return;
    const { ids } = done; // those that were in it; too many are not named
    const undo = ids?.length ? { action: "Undo", act: () => keep(name, false, { ids }) } : {};
    notice(`${counted(done.changed, "image")} removed from ${name}.`, undo);
    selection.clear();
    onChange();
  }

  /** Images that are no longer in the archive: they could not be added again, so there is no undo. */
  async function removeMissing(name, ids) {
    const again = () => removeMissing(name, ids);
    const done = await change(() => api.removeFromCollection(name, { ids }), { again });
    if (done === null) return;
    notice(`${counted(done.changed, "image")} removed from ${name}.`);
    onChange();
  }

  async function rename(name) {
    const chosen = await named({ heading: `Rename ${name}`, label: "Name", action: "Rename", value: name });
    if (!chosen || chosen.name === name) return;
    const done = await change(() => api.renameCollection(name, chosen.name), { again: () => rename(name) });
    // Not a step of the history: the address before it does not exist any more.
    if (done !== null) go({ ...getState(), collection: done.collection.name }, { replace: true });
  }

  async function remove(name) {
    const { images } = known.find((each) => each.name === name) ?? { images: 0 };
    const sure = await confirmed({
      heading: `Delete ${name}?`,
      text: `It lists ${counted(images, "image")}. The images themselves stay in the archive.`,
      action: "Delete",
    });
    if (!sure) return;
    const done = await change(() => api.deleteCollection(name), { again: () => remove(name) });
    if (done === null) return;
    notice(`The collection ${name} is deleted.`);
    go(withChanges(getState(), { collection: null }), { replace: true });
  }

  return {
    element,
    addSelected,
    removeSelected,
    removeMissing,
    rename,
    remove,
    isEditable: () => editable,
    build(archive) {
      editable = archive.editable === true;
      load();
    },
    show: draw,
  };
}
