// Changes of labels: sent one after another, in the order they were made, so that undo takes back the last one.

import * as annotations from "./annotations-api.js";
import { el } from "./dom.js";
import { counted } from "./format.js";
import { announce, notice } from "./notices.js";

/** @param {{onToken: (then: () => void) => void}} acts */
export function makeLabelEdits({ onToken }) {
  /** The names of labels, for all fields that take one. */
  const list = el("datalist", { id: "label-names" });
  document.body.append(list);
  const names = new Set();
  const listeners = [];
  let last = Promise.resolve();

  function learn(found) {
    for (const name of found) {
      if (names.has(name)) continue;
      names.add(name);
      list.append(el("option", { value: name }));
    }
  }

  /** Runs after all that was asked before; null where it failed, which the page then shows. */
  function inOrder(act) {
    const run = () =>
      act().then(
        (answer) => {
          if (answer.changed) for (const listener of listeners) listener();
          return answer;
        },
        (error) => {
          if (error.status === 401) onToken(() => inOrder(act));
          else notice(error.message, { problem: true, action: "Try again", act: () => inOrder(act) });
          return null;
        },
      );
    last = last.then(run);
    return last;
  }

  async function undo() {
    const answer = await inOrder(annotations.undoLabels);
    if (answer === null) return null;
    const kept = answer.kept ? `, ${counted(answer.kept, "label")} changed since then stay` : "";
    const words =
      answer.undone === null
        ? "There is nothing to undo."
        : `Undone: ${counted(answer.changed, "label")}${kept}.`;
    announce(words);
    notice(words);
    return answer;
  }

  return {
    learn,
    isKnown: (label) => names.has(label),
    names: () => [...names],
    /** @param {() => void} listener called after every change */
    onChange: (listener) => listeners.push(listener),
    /** @param {import("./annotations-api.js").Change[]} changes one step of undo */
    async set(changes) {
      const answer = await inOrder(() => annotations.setLabels(changes));
      if (answer) learn(changes.map(({ label }) => label));
      return answer;
    },
    undo,
    /** Waits until everything was sent. */
    settled: () => last,
  };
}

/**
 * A field for the name of a label, known or new, with a button for each action; Enter does the first.
 * @param {{id: string, words: string, actions: [content: Node|string, act: (name: string) => void][]}} about
 */
export function labelNameField({ id, words, actions }) {
  const field = el("input", {
    class: "field",
    id,
    type: "text",
    list: "label-names",
    maxlength: "100",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    placeholder: words,
    "aria-label": words,
  });
  const buttons = actions.map(([content]) => el("button", { class: "button", type: "submit" }, content));
  const submit = (event) => {
    event.preventDefault();
    const name = field.value.trim();
    if (!name) return;
    field.value = "";
    const [, act] = actions[buttons.indexOf(event.submitter)];
    act(name);
  };
  return el(
    "form",
    { class: "label-name-form", on: { submit } },
    field,
    ...buttons,
  );
}
