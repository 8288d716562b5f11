// Questions about collections: which one, how it is called, and whether one is sure.

import { byId, el, icon } from "./dom.js";
import { count } from "./format.js";

const LONGEST = 100;

/**
 * Shows a dialog until it is answered.
 * @param {(answer: (value: any) => void) => Node[]} content
 * @returns {Promise<any>} null where it was closed
 */
export function asked(heading, content) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("question"));
  return new Promise((resolve) => {
    let given = null;
    const answer = (value) => {
      given = value;
      dialog.close();
    };
    const close = el(
      "button",
      { class: "icon-button close", type: "button", "aria-label": "Close", on: { click: () => answer(null) } },
      icon("close"),
    );
    dialog.replaceChildren(el("h2", { id: "question-name" }, heading), ...content(answer), close);
    dialog.addEventListener("close", () => resolve(given), { once: true });
    dialog.showModal();
    const first = dialog.querySelector("[data-first]");
    first?.focus();
    first?.select?.(); // a name that is there may be changed or replaced
  });
}

/**
 * Whether one is sure; Enter alone changes nothing.
 * @param {{heading: string, text: string, action: string, deletes?: boolean}} about `deletes`: the button is red
 */
export async function confirmed({ heading, text, action, deletes = true }) {
  const sure = await asked(heading, (answer) => [
    el("p", { class: "muted" }, text),
    el(
      "div",
      { class: "question-acts" },
      el(
        "button",
        { class: "button", type: "button", data: { first: "" }, on: { click: () => answer(null) } },
        "Cancel",
      ),
      el(
        "button",
        { class: `button ${deletes ? "danger" : "primary"}`, type: "button", on: { click: () => answer(true) } },
        action,
      ),
    ),
  ]);
  return sure === true;
}

/**
 * A name: one of those that exist, or a new one.
 * @typedef {{name: string, images: number}[]} Names
 * @param {{heading: string, label: string, action: string, value?: string, names?: Names, newNames?: Promise<Names>}} about
 *   `newNames`: those that exist by now, which the dialog does not wait for
 * @returns {Promise<{name: string, isNew: boolean}|null>}
 */
export function named({ heading, label, action, value = "", names = [], newNames }) {
  return asked(heading, (answer) => {
    const field = el("input", {
      class: "field",
      id: "collection-name",
      type: "text",
      required: true,
      maxlength: LONGEST,
      autocomplete: "off",
      spellcheck: "false",
      value,
      data: { first: "" },
    });
    const submit = (event) => {
      event.preventDefault();
      const name = field.value.trim().normalize();
      if (name) answer({ name, isNew: !known.some((each) => each.name === name) });
    };
    let known = [];
    const existing = ({ name, images }) =>
      el(
        "li",
        {},
        el(
          "button",
          { class: "collection-row", type: "button", on: { click: () => answer({ name, isNew: false }) } },
          icon("collection"),
          el("span", { class: "collection-name" }, name),
          el("span", { class: "number muted" }, count(images)),
        ),
      );
    const list = el("ul", { class: "collection-list", "aria-label": "Existing collections" });
    const show = (found) => {
      known = found;
      list.hidden = !found.length;
      list.replaceChildren(...found.map(existing));
    };
    show(names);
    newNames?.then(show);
    return [
      list,
      el(
        "form",
        { class: "token-form", on: { submit } },
        el("label", { for: "collection-name" }, label),
        field,
        el("button", { class: "button primary", type: "submit" }, action),
      ),
    ];
  });
}
