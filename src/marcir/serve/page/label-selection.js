// Gives a label to all selected images at once.

import { byId, closeButton, el } from "./dom.js";
import { counted } from "./format.js";
import { labelNameField } from "./label-edits.js";
import { NOT_ABSENT, STATES, stateBadge } from "./label-states.js";
import { notice } from "./notices.js";

const DONE = {
  present: "is present in",
  absent: "is absent from",
  unknown: "is unknown for",
  cleared: "is withdrawn for",
};
const WORDS = { cleared: "withdraw what the page says: the archive's table applies again" };

/** @param {{edits: ReturnType<typeof import("./label-edits.js").makeLabelEdits>, selection: any, onDone: () => void}} acts */
export function makeLabelSelection({ edits, selection, onDone }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("label-selection"));
  let state = "present";

  async function give(label) {
    const chosen = selection.asSelection();
    if (chosen === null) return;
    const given = state;
    const answer = await edits.set([{ label, state: given, ...chosen }]);
    dialog.close();
    const already = answer.unchanged ? ` (${counted(answer.unchanged, "image")} had it before)` : "";
    const undo = async () => {
      await edits.undo({ edit: answer.edit });
      onDone();
    };
    const words = `${label} ${DONE[given]} ${counted(answer.changed, "image")}${already}.`;
    notice(words, answer.edit === null ? {} : { action: "Undo", act: undo });
    onDone();
  }

  dialog.addEventListener("close", () => document.body.append(byId("notices")));

  const choice = (each) => {
    const input = el("input", { type: "radio", name: "label-state", value: each, checked: each === state });
    input.addEventListener("change", () => (state = each));
    return el(
      "label",
      { class: "state-choice" },
      input,
      each === "cleared" ? "clear" : stateBadge(each),
      WORDS[each] && el("span", { class: "muted small" }, WORDS[each]),
    );
  };

  return {
    open() {
      if (selection.isEmpty()) return;
      state = "present";
      dialog.replaceChildren(
        closeButton(() => dialog.close()),
        el("h2", { id: "label-selection-name" }, `Label ${counted(selection.size(), "image")}`),
        el(
          "fieldset",
          { class: "state-choices" },
          el("legend", {}, "The label is"),
          ...[...STATES, "cleared"].map(choice),
        ),
        labelNameField({
          id: "label-selection-field",
          words: "Label, known or new",
          actions: [["Give it", give]],
        }),
        el("p", { class: "muted small" }, NOT_ABSENT),
      );
      dialog.showModal();
      dialog.append(byId("notices")); // what lies outside an open dialog cannot be used
      dialog.querySelector("#label-selection-field").focus();
    },
  };
}
