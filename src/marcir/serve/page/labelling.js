// Labelling: one large image at a time, and the labels on the keys 1 to 9.

import * as api from "./api.js";
import { byId, closeButton, el, icon, stepButton } from "./dom.js";
import { count, shortName } from "./format.js";
import { enterLabelling, leaveDialog } from "./history.js";
import { labelNameField } from "./label-edits.js";
import { KEYS, makeLabelKeys } from "./label-keys.js";
import { NOT_ABSENT, STATES, labelRow, originOf, stateBadge, stateOf } from "./label-states.js";
import { announce, notice } from "./notices.js";

/**
 * @param {{edits: ReturnType<typeof import("./label-edits.js").makeLabelEdits>, onRetrain: () => void,
 *   onClose: () => void}} acts
 */
export function makeLabelling({ edits, onRetrain, onClose }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("labelling"));
  const content = el("div", { class: "labelling-content" });
  dialog.append(content);
  const known = new Map(); // images, by id
  const asked = new Map(); // requests for them, by id
  let undone = Promise.resolve(); // when what was undone last is shown
  let keys = null;
  let changes = 0; // so far
  const labelled = new Set(); // images that were labelled since the dialog was opened
  let ids = [];
  let at = 0;
  let more = null;
  let total = null; // how many there are in all, where that is known

  const here = () => ids[at];
  const image = () => known.get(here()) ?? null;

  /** An image as the service knows it, with the changes made here since. */
  async function load(id) {
    if (known.has(id)) return known.get(id);
    if (!asked.has(id)) asked.set(id, api.image(id));
    const request = asked.get(id);
    try {
      const found = await request;
      if (asked.get(id) === request) known.set(id, found); // else everything was forgotten meanwhile
    } finally {
      if (asked.get(id) === request) asked.delete(id);
    }
    return load(id);
  }

  function forget() {
    known.clear();
    asked.clear();
  }

  async function show() {
    draw();
    const id = here();
    try {
      await load(id);
      if (dialog.open && here() === id) draw();
      if (ids[at + 1] !== undefined) await load(ids[at + 1]);
    } catch (error) {
      notice(error.message, { problem: true, action: "Try again", act: show });
    }
  }

  async function step(by) {
    if (by > 0 && at === ids.length - 1 && more !== null) {
      try {
        await loadMore();
      } catch (error) {
        notice(error.message, { problem: true });
        return;
      }
    }
    const next = Math.max(0, Math.min(ids.length - 1, at + by));
    if (next === at) {
      announce(by > 0 ? "This was the last image." : "This is the first image.");
      return;
    }
    at = next;
    await show();
    announce(`Image ${at + 1}: ${shortName(here())}`);
  }

  /** Adds the next images. Labelled ones may have left a search that is filtered by labels, so it may be shorter. */
  async function loadMore() {
    let offset = ids.length - labelled.size;
    for (;;) {
      const found = await more(offset);
      const others = found.filter((id) => !ids.includes(id));
      ids.push(...others);
      offset += found.length;
      if (others.length || !found.length) return;
    }
  }

  /**
   * Changes labels of the image that is shown: at once on the page, then in the archive. A key may be pressed
   * before the image is known, or while something is undone.
   * @param {(found: object) => string[]} labelsOf of an image as the service describes it
   * @param {string} state
   */
  async function change(labelsOf, state) {
    const id = here();
    let found;
    try {
      await undone;
      found = await load(id);
    } catch (error) {
      notice(error.message, { problem: true, action: "Try again", act: show });
      return;
    }
    const labels = labelsOf(found);
    if (!labels.length) return;
    const mine = (changes += 1);
    labelled.add(id);
    for (const label of labels) {
      found.labels = found.labels.filter((each) => each !== label);
      found.unknown = found.unknown.filter((each) => each !== label);
      if (state === "present") found.labels.push(label);
      if (state === "unknown") found.unknown.push(label);
      if (state === "cleared") delete found.page_labels[label];
      else found.page_labels[label] = state;
    }
    if (dialog.open && here() === id) draw();
    announce(`${labels.join(", ")}: ${state}`);
    let failed = false;
    const follow = () => (failed || changes === mine) && reload(id); // else the last change does so
    await edits.set(
      labels.map((label) => ({ label, state, ids: [id] })),
      () => {
        follow();
        failed = true;
      },
    );
    await follow();
  }

  /** Shows what the service says of an image, unless it was changed again meanwhile. */
  async function reload(id) {
    const before = changes;
    try {
      const found = await api.image(id);
      if (changes !== before) return;
      known.set(id, found);
      if (dialog.open && here() === id) draw();
    } catch {
      known.delete(id); // it is asked for again when it is shown
    }
  }

  function undo() {
    undone = new Promise((resolve) => {
      const follow = async () => {
        forget();
        await show();
        resolve();
      };
      edits.undo({ onFailed: follow }).then(follow);
    });
  }

  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=text]")) return;
    const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1];
    const undoing = (event.ctrlKey || event.metaKey) && event.key === "z";
    if (event.altKey || ((event.ctrlKey || event.metaKey) && !undoing)) return;
    if (undoing || event.key === "u") undo();
    else if (event.key === "ArrowRight" || event.key === "Enter") {
      if (event.key === "Enter" && event.target.matches("button")) return;
      step(1);
    } else if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "Backspace" || digit === "0")
      change((found) => Object.keys(found.page_labels), "cleared");
    else if (digit !== undefined) {
      const label = keys.all()[Number(digit) - 1];
      if (label !== undefined) change(() => [label], event.shiftKey ? "absent" : "present");
    } else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => {
    forget();
    content.replaceChildren();
    document.body.append(byId("notices"));
    leaveDialog();
    onClose();
  });

  function picture() {
    const id = here();
    const made = el("img", { src: api.thumbnailUrl(id), alt: `Image ${shortName(id)}` });
    if (image()?.original) {
      const large = el("img", { src: api.originalUrl(id), alt: `Image ${shortName(id)}` });
      large.addEventListener("load", () => made.replaceWith(large));
    }
    return el(
      "div",
      { class: "detail-picture", data: { id } },
      made,
      stepButton("left", "Previous image", at > 0 && (() => step(-1))),
      stepButton("right", "Next image", (at < ids.length - 1 || more !== null) && (() => step(1))),
    );
  }

  function rows() {
    const found = image();
    return keys.all().map((label, place) => {
      const state = found && stateOf(found, label, edits.isKnown);
      return labelRow({
        key: place + 1,
        label,
        state,
        origin: found ? originOf(found, label, state) : { page: false, words: "" },
        onSet: (state) => change(() => [label], state),
        onRemove() {
          keys.remove(label);
          draw();
        },
      });
    });
  }

  /** Labels that are on no key: those the image has, and those the page states. */
  function others() {
    const found = image();
    const names = found ? [...new Set([...found.labels, ...Object.keys(found.page_labels)])] : [];
    const left = names.filter((label) => !keys.all().includes(label));
    if (!left.length) return null;
    const parts = STATES.map((state) => {
      const here = left.filter((label) => stateOf(found, label, edits.isKnown) === state);
      return here.length > 0 && el("span", {}, stateBadge(state), `: ${here.join(", ")}`);
    });
    return el("p", { class: "labelling-others small" }, "Not on a key:", ...parts);
  }

  function addLabel(label) {
    const full = keys.isFull() && !keys.all().includes(label);
    const replaced = keys.all().at(-1);
    keys.add(label);
    draw();
    if (full) notice(`${label} is on key ${KEYS}, in place of ${replaced}.`);
    dialog.querySelector("#labelling-new").focus();
  }

  function draw() {
    const focused = document.activeElement;
    const kept = focused?.dataset?.keep ?? (focused?.getAttribute?.("aria-label") || null);
    const typed = dialog.querySelector("#labelling-new")?.value ?? "";
    const shown = dialog.querySelector(".detail-picture");
    const same = shown?.dataset.id === here() && image() !== null && shown.dataset.known === "true";
    const view = same ? shown : picture();
    view.dataset.known = String(image() !== null);
    content.replaceChildren(
      closeButton(() => dialog.close()),
      view,
      el(
        "div",
        { class: "detail-words" },
        el(
          "h2",
          { id: "labelling-name", tabindex: "-1" },
          `Image ${count(at + 1)}${total === null ? "" : ` of ${count(total)}`}`,
        ),
        el("p", { class: "labelling-id muted small", title: here() }, here()),
        keys.all().length
          ? el("ol", { class: "label-rows", "aria-label": "Labels on the keys" }, ...rows())
          : el("p", {}, "Put a label on a key: type its name below, a known one or a new one."),
        others(),
        labelNameField({
          id: "labelling-new",
          words: "Label, known or new",
          actions: [["Put on a key", addLabel]],
        }),
        el(
          "div",
          { class: "labelling-acts" },
          el(
            "button",
            { class: "button", type: "button", data: { keep: "undo" }, on: { click: undo } },
            icon("undo"),
            "Undo",
          ),
          el(
            "button",
            { class: "button", type: "button", on: { click: () => (dialog.close(), onRetrain()) } },
            icon("train"),
            "Train with these",
          ),
        ),
        el(
          "ul",
          { class: "labelling-help muted small" },
          el(
            "li",
            {},
            el("kbd", {}, "1"),
            "–",
            el("kbd", {}, "9"),
            " present, with ",
            el("kbd", {}, "Shift"),
            " absent",
          ),
          el(
            "li",
            {},
            el("kbd", {}, "←"),
            " ",
            el("kbd", {}, "→"),
            " move, ",
            el("kbd", {}, "0"),
            " withdraw, ",
            el("kbd", {}, "u"),
            " undo",
          ),
          el("li", {}, NOT_ABSENT),
        ),
      ),
    );
    dialog.querySelector("#labelling-new").value = typed;
    refocus(kept);
  }

  /** The focus stays on the button that has the same name; else it is on the image. */
  function refocus(kept) {
    const parts = [...dialog.querySelectorAll("button, input")];
    const found =
      kept && parts.find((each) => [each.dataset.keep, each.getAttribute("aria-label")].includes(kept));
    if (found && !found.disabled) found.focus();
    else dialog.querySelector("#labelling-name").focus();
  }

  return {
    close: () => dialog.close(),
    /** The labels on the keys, once the archive is known. */
    build(archive) {
      keys ??= makeLabelKeys(archive);
    },
    /**
     * @param {{images: string[], first?: string|null, rest?: ((offset: number) => Promise<string[]>)|null,
     *   size?: number|null}} what `rest`: the ids after the first `offset` ones; null where there are no more;
     *   `size`: how many there are in all; null where that is unknown
     */
    open({ images, first = null, rest = null, size = images.length }) {
      if (!images.length) return;
      ids = [...images];
      at = Math.max(0, ids.indexOf(first));
      more = rest;
      total = size;
      labelled.clear();
      dialog.showModal();
      enterLabelling();
      dialog.append(byId("notices")); // what lies outside an open dialog cannot be used
      show();
    },
  };
}
