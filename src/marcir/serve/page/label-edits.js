// Changes of labels: sent one after another, in the order they were made. Undo takes back what this tab changed,
// also before the page was loaded again, and not what others did.

import * as annotations from "./annotations-api.js";
import { byId, el } from "./dom.js";
import { counted } from "./format.js";
import { announce, notice } from "./notices.js";

const PREFIX = "marcir:edits:";
const MOST_STEPS = 1000; // that are kept when the page is loaded again

/** Numbers of the edits of this tab that can be undone, the last one at the end. */
function storedEdits(archive) {
  try {
    const found = JSON.parse(sessionStorage.getItem(PREFIX + archive) ?? "[]");
    return Array.isArray(found) ? found.filter(Number.isInteger) : [];
  } catch {
    return []; // storage is disabled, or something else is stored
  }
}

function storeEdits(archive, edits) {
  try {
    sessionStorage.setItem(PREFIX + archive, JSON.stringify(edits.slice(-MOST_STEPS)));
  } catch {
    // storage is full or disabled: undo works until the page is reloaded
  }
}

/** @param {{onToken: (then: () => void) => void}} acts */
export function makeLabelEdits({ onToken }) {
  /** The names of labels, for all fields that take one. */
  const list = el("datalist", { id: "label-names" });
  document.body.append(list);
  const names = new Set();
  const listeners = [];
  const undoListeners = [];
  let mine = []; // numbers of the edits that can be undone
  let archiveName = null;
  let last = Promise.resolve();

  function learn(found) {
    for (const name of found) {
      if (names.has(name)) continue;
      names.add(name);
      list.append(el("option", { value: name }));
    }
  }

  /**
   * Runs after all that was asked before.
   * @param {() => Promise<any>} act
   * @param {() => void} [onFailed] after every attempt that failed, which the page then shows
   * @returns {Promise<any>} the answer, also where a later attempt succeeds
   */
  function inOrder(act, onFailed) {
    return new Promise((resolve) => {
      const attempt = () => {
        last = last.then(act).then(
          (answer) => {
            if (answer?.changed) for (const listener of listeners) listener();
            resolve(answer);
          },
          (error) => {
            if (error.status === 401) onToken(attempt);
            else if (error.isRefusal) notice(error.message, { problem: true });
            else notice(error.message, { problem: true, action: "Try again", act: attempt });
            onFailed?.();
          },
        );
      };
      attempt();
    });
  }

  /**
   * @param {{edit?: number, onFailed?: () => void}} [what] `edit`: its number; by default the last of this tab
   * @returns {Promise<any>} null where there is nothing to undo
   */
  async function undo({ edit, onFailed } = {}) {
    const answer = await inOrder(async () => {
      edit ??= mine.at(-1);
      if (edit === undefined) return null;
      try {
        const done = await annotations.undoLabels(edit);
        forgetEdit(edit);
        return done;
      } catch (error) {
        if (error.status === 422) forgetEdit(edit); // somebody undid it already
        throw error;
      }
    }, onFailed);
    const kept = answer?.kept ? `, ${counted(answer.kept, "label")} changed since then stay` : "";
    const words =
      answer === null
        ? "There is nothing to undo: this tab has changed no label that is not undone."
        : `Undone: ${counted(answer.changed, "label")}${kept}.`;
    announce(words);
    notice(words);
    return answer;
  }

  const forgetEdit = (edit) => setMine(mine.filter((each) => each !== edit));

  function setMine(edits) {
    mine = edits;
    storeEdits(archiveName, mine);
    for (const listener of undoListeners) listener();
  }

  return {
    /** Follows the archive: the names of its labels, and what this tab has changed in it. */
    build(archive) {
      learn(archive.labels.map(({ name }) => name));
      if (archive.name === archiveName) return; // the archive was asked for again
      archiveName = archive.name;
      mine = storedEdits(archiveName);
    },
    isKnown: (label) => names.has(label),
    names: () => [...names],
    /** @param {() => void} listener called after every change */
    onChange: (listener) => listeners.push(listener),
    canUndo: () => mine.length > 0,
    /** @param {() => void} listener called where there is something else to undo */
    onUndoChange: (listener) => undoListeners.push(listener),
    /**
     * @param {import("./annotations-api.js").Change[]} changes one step of undo
     * @param {() => void} [onFailed] after every attempt that failed
     * @returns {Promise<any>} the answer, also where a later attempt succeeds
     */
    set(changes, onFailed) {
      return inOrder(async () => {
        const answer = await annotations.setLabels(changes);
        if (answer.edit !== null) setMine([...mine, answer.edit]);
        learn(changes.map(({ label }) => label));
        return answer;
      }, onFailed);
    },
    undo,
    /** Waits until everything was sent once. */
    settled: () => last,
  };
}

/** A name as it is typed, in the spelling of the label that looks the same. */
function spelled(typed) {
  const name = typed.trim().normalize();
  const known = [.../** @type {HTMLDataListElement} */ (byId("label-names")).options];
  return known.map(({ value }) => value).find((each) => each.normalize() === name) ?? name;
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
    const name = spelled(field.value);
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
