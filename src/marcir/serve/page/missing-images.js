// Images of a collection that are no longer in the archive: their ids, and removing them from it.

import * as api from "./api.js";
import { asked } from "./collection-dialog.js";
import { el } from "./dom.js";
import { count, counted } from "./format.js";
import { notice } from "./notices.js";

const SHOWN = 200;

/** Ids of all images of a collection that are no longer in the archive. */
async function missingIds(name) {
  const ids = [];
  for (;;) {
    const { members, more } = await api.missingMembers(name, ids.length);
    ids.push(...members.map(({ id }) => id));
    if (!more || !members.length) return ids;
  }
}

/**
 * Lists them in a dialog.
 * @param {string} name of the collection
 * @param {((ids: string[]) => void)|null} remove null where collections cannot be changed
 */
export async function showMissing(name, remove) {
  let ids;
  try {
    ids = await missingIds(name);
  } catch (error) {
    notice(error.message, { problem: true });
    return;
  }
  const button = (words, kind, act) => el("button", { class: `button ${kind}`, type: "button", on: { click: act } }, words);
  const sure = await asked(`${counted(ids.length, "image")} of ${name} no longer in the archive`, (answer) => [
    el("p", { class: "muted" }, "An image that is indexed again under its id is in the collection again."),
    el(
      "ul",
      { class: "missing-list small", tabindex: "0", "aria-label": "Ids" },
      ...ids.slice(0, SHOWN).map((id) => el("li", {}, id)),
      ids.length > SHOWN && el("li", { class: "muted" }, `and ${count(ids.length - SHOWN)} more`),
    ),
    el(
      "div",
      { class: "question-acts" },
      button("Close", "", () => answer(false)),
      remove && button(`Remove ${count(ids.length)}`, "danger", () => answer(true)),
    ),
  ]);
  if (sure) remove(ids);
}
