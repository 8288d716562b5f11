// Suggestions: images that probably have a label, learned from those that are labelled. They are accepted,
// rejected or skipped one by one, or accepted together above a probability.

import * as annotations from "./annotations-api.js";
import { Newest, thumbnailUrl } from "./api.js";
import { precisionCurve } from "./ap-curve.js";
import { confirmed } from "./collection-dialog.js";
import { el, icon, screenReaderText } from "./dom.js";
import { count, counted, shortName } from "./format.js";
import { columnsOf, MOVES } from "./grid.js";
import { announce, notice, showBusy } from "./notices.js";
import { thumbnail } from "./query-images.js";
import { filterQuery } from "./state.js";

const ROUND = 20; // images that are answered before the next ones are learned
const THRESHOLD = 0.9;
const LEAST_THRESHOLD = 0.01;
/** Suggestions whose probabilities are farther than this from 50 % are not uncertain. */
const UNCERTAIN = 0.25;
const ANSWERS = { present: "accepted", absent: "rejected", skipped: "skipped" };

/**
 * @param {{getState: Function, go: Function, edits: any, onOpen: (id: string) => void,
 *   onRetrain: () => void}} acts
 */
export function makeSuggestions({ getState, go, edits, onOpen, onRetrain }) {
  const chooser = el("select", { class: "field", id: "suggest-label" });
  const learned = el("p", { class: "muted small" });
  const list = el("ul", { class: "grid suggestions-grid", "aria-label": "Suggestions" });
  const message = el("p", { class: "suggestions-message" });
  const curve = el("div", { class: "suggestions-curve" });
  const orders = el("div", { class: "ways", role: "group", "aria-label": "Order of the suggestions" });
  const threshold = el("input", {
    class: "field",
    id: "suggest-threshold",
    type: "number",
    min: String(LEAST_THRESHOLD),
    max: "1",
    step: "0.01",
    value: String(THRESHOLD),
  });
  const acceptAll = el("button", { class: "button", type: "button" });
  const again = el(
    "button",
    { class: "button", type: "button", title: "Learn from the new labels (n)", "aria-label": "Learn again" },
    icon("suggest"),
    el("span", { class: "wide-only" }, "Learn again"),
  );
  const undoButton = el(
    "button",
    { class: "button", type: "button", title: "Undo (u)", "aria-label": "Undo", on: { click: undo } },
    icon("undo"),
    el("span", { class: "wide-only" }, "Undo"),
  );
  const head = el("h1", { class: "places" }, el("label", { for: "suggest-label" }, "Suggestions for"));
  const everything = el(
    "div",
    { class: "suggestions-all" },
    el("label", { for: "suggest-threshold" }, "Probability at least"),
    threshold,
    acceptAll,
  );
  const element = el(
    "section",
    { class: "suggestions", "aria-label": "Suggestions" },
    el(
      "div",
      { class: "toolbar-line" },
      el("div", { class: "suggestions-head" }, head, chooser),
      el(
        "div",
        { class: "tools" },
        orders,
        undoButton,
        again,
        el(
          "button",
          { class: "button", type: "button", "aria-label": "Train with these", on: { click: onRetrain } },
          icon("train"),
          el("span", { class: "wide-only" }, "Train with these"),
        ),
      ),
    ),
    el(
      "div",
      { class: "suggestions-about" },
      el("div", { class: "suggestions-words" }, learned, everything),
      curve,
    ),
    message,
    list,
    el(
      "p",
      { class: "muted small suggestions-help" },
      el("kbd", {}, "a"),
      " accept, ",
      el("kbd", {}, "r"),
      " reject, ",
      el("kbd", {}, "s"),
      " skip, ",
      el("kbd", {}, "u"),
      " undo, ",
      el("kbd", {}, "n"),
      " learn again",
    ),
  );
  const newest = new Newest();
  const totals = new Newest();
  const scores = new Newest();
  const skipped = new Map(); // ids by label, until the page is loaded again
  let asked = "";
  let current = 0;

  const label = () => getState().suggest;
  const skippedHere = () => skipped.get(label()) ?? new Set();
  const tiles = () => [...list.querySelectorAll(".suggestion")];
  const open = () => tiles().filter((each) => each.dataset.answer === "");

  function drawControls(archive) {
    const names = [...new Set([...archive.labels.map(({ name }) => name), ...edits.names()])].sort();
    chooser.replaceChildren(
      el("option", { value: "" }, "Choose a label…"),
      ...names.map((name) => el("option", { value: name, selected: name === label() }, name)),
    );
    const order = (confident, words, title) =>
      el(
        "button",
        {
          class: "way",
          type: "button",
          title,
          "aria-pressed": String(getState().confident === confident),
          on: { click: () => go({ ...getState(), confident }) },
        },
        words,
      );
    orders.replaceChildren(
      order(false, "Uncertain first", "What the labels learn most from"),
      order(true, "Confident first", "What has the label most probably"),
    );
    for (const part of [everything, again, orders, undoButton]) part.hidden = label() === null;
    drawUndo();
  }

  function drawUndo() {
    undoButton.disabled = skippedLast() === null && !edits.canUndo();
  }

  async function load({ focus = false } = {}) {
    const signal = newest.next();
    scores.next();
    list.setAttribute("aria-busy", "true");
    message.textContent = "";
    const order = getState().confident ? "confident" : "uncertain";
    try {
      const limit = Math.min(200, ROUND + skippedHere().size);
      const found = await annotations.suggestions(getState(), { order, limit }, { signal, onBusy: showBusy });
      draw(found);
      // The keys work at once; whoever is in a field or at a button stays there.
      if (focus || document.activeElement === document.body) setCurrent(0, { focus: true });
      drawScore();
      countAbove();
    } catch (error) {
      if (error.name === "AbortError") return;
      list.replaceChildren();
      learned.textContent = "";
      curve.replaceChildren();
      everything.hidden = true;
      message.textContent = error.message;
    } finally {
      if (!signal.aborted) list.removeAttribute("aria-busy");
    }
  }

  function draw(found) {
    const { present, absent, weak, total } = found;
    everything.hidden = false;
    learned.textContent =
      `Learned from ${counted(present, "image")} with ${found.label} and ${count(absent)} without it` +
      (weak ? `; ${counted(weak, "unlabelled image")} taken for absent with a small weight.` : ".") +
      ` ${counted(total, "image")} left.`;
    const hits = found.hits.filter(({ id }) => !skippedHere().has(id)).slice(0, ROUND);
    list.replaceChildren(...hits.map(tile));
    setCurrent(0);
    drawUndo();
    if (!hits.length)
      message.textContent = "Nothing is left to suggest: every image that passes is labelled or skipped.";
    else if (!getState().confident && hits.every(({ probability }) => Math.abs(probability - 0.5) > UNCERTAIN))
      message.textContent = "None of these is near 50 %: try confident ones first, or another label.";
    announce(`${counted(hits.length, "suggestion")} for ${found.label}. ${message.textContent}`.trim());
  }

  function tile(hit) {
    const name = shortName(hit.id);
    const percent = `${Math.round(100 * hit.probability)} %`;
    const fill = el("span", { class: "bar-fill" });
    fill.style.inlineSize = `${100 * hit.probability}%`;
    const act = (answer, sign, words, key) =>
      el(
        "button",
        {
          class: `button answer answer-${answer}`,
          type: "button",
          "aria-label": `${words}: ${name}`,
          title: `${words} (${key})`,
          on: { click: () => reply(made, answer) },
        },
        icon(sign),
        answer !== "skipped" && el("span", { class: "answer-word" }, words),
      );
    const made = el(
      "li",
      { class: "suggestion", data: { id: hit.id, answer: "" } },
      el(
        "div",
        { class: "tile-picture" },
        el(
          "button",
          {
            class: "tile-link suggestion-link",
            type: "button",
            title: hit.id,
            "aria-label": `${name}, ${percent}: details`,
            on: { click: () => onOpen(hit.id) },
          },
          el("span", { class: "frame" }, thumbnail(thumbnailUrl(hit.id), { loading: "lazy" })),
        ),
        el("span", { class: "place answered", "aria-hidden": "true" }),
      ),
      el(
        "span",
        { class: "similarity" },
        screenReaderText("probability "),
        el("span", { class: "number" }, percent),
        el("span", { class: "bar", "aria-hidden": "true" }, fill),
      ),
      el(
        "span",
        { class: "answers" },
        act("present", "check", "Accept", "a"),
        act("absent", "close", "Reject", "r"),
        act("skipped", "right", "Skip", "s"),
      ),
    );
    return made;
  }

  async function reply(made, answer) {
    if (made.dataset.answer !== "") return;
    const wanted = label();
    showAnswer(made, answer);
    announce(`${shortName(made.dataset.id)} ${ANSWERS[answer]}.`);
    moveOn(made);
    if (answer === "skipped") {
      skipped.set(wanted, skippedHere().add(made.dataset.id));
      drawUndo();
    } else {
      await edits.set([{ label: wanted, state: answer, ids: [made.dataset.id] }], () => showAnswer(made, ""));
      showAnswer(made, answer);
    }
    if (label() === wanted && tiles().length && !open().length) load({ focus: true });
  }

  /** @param {"present"|"absent"|"skipped"|""} answer the empty one: none */
  function showAnswer(made, answer) {
    made.dataset.answer = answer;
    made.querySelector(".answered").textContent = ANSWERS[answer] ?? "";
    for (const button of made.querySelectorAll(".answers button")) button.disabled = answer !== "";
    drawUndo();
  }

  /** To the next image without an answer. */
  function moveOn(made) {
    const all = tiles();
    const next = [...all.slice(all.indexOf(made) + 1), ...all].find((each) => each.dataset.answer === "");
    if (next) setCurrent(all.indexOf(next), { focus: true });
  }

  /** The image that was skipped last, where nothing else was answered; null where undo means something else. */
  function skippedLast() {
    const last = [...skippedHere()].at(-1);
    const made = tiles().findLast((each) => each.dataset.answer === "skipped" && each.dataset.id === last);
    return made && tiles().every((each) => ["", "skipped"].includes(each.dataset.answer)) ? made : null;
  }

  async function undo() {
    const made = skippedLast();
    if (made) {
      skippedHere().delete(made.dataset.id);
      showAnswer(made, "");
      setCurrent(tiles().indexOf(made), { focus: true });
    } else if (await edits.undo()) load({ focus: true });
  }

  async function drawScore() {
    const signal = scores.next();
    try {
      const score = await annotations.score(label(), { signal });
      if (!signal.aborted) curve.replaceChildren(...(score ? [precisionCurve(score)] : []));
    } catch (error) {
      if (error.name !== "AbortError")
        curve.replaceChildren(el("p", { class: "muted small" }, error.message));
    }
  }

  const least = () => Number(threshold.value);

  /** Writes the threshold that is used into its field: to two digits and between its limits. */
  function setThreshold() {
    const given = threshold.value === "" ? THRESHOLD : Math.round(100 * least()) / 100;
    threshold.value = String(Math.max(LEAST_THRESHOLD, Math.min(1, given)));
    countAbove();
  }

  async function countAbove() {
    const signal = totals.next();
    acceptAll.disabled = true;
    try {
      const { total } = await annotations.suggestions(
        getState(),
        { min_probability: least(), limit: 1 },
        { signal },
      );
      acceptAll.disabled = total === 0;
      acceptAll.textContent = `Accept all ${count(total)}…`;
    } catch (error) {
      if (error.name !== "AbortError") acceptAll.textContent = "Accept all…";
    }
  }

  async function acceptEverything() {
    const wanted = label();
    const limit = least();
    try {
      const { ids } = await annotations.suggestionIds(getState(), limit, { onBusy: showBusy });
      if (!ids.length) return;
      const sure = await confirmed({
        heading: `Give ${wanted} to ${counted(ids.length, "image")}?`,
        text: `Their probability is at least ${limit.toFixed(2)}. Nobody has looked at them; one undo takes all of them back.`,
        action: `Accept ${count(ids.length)}`,
        deletes: false,
      });
      if (!sure) return;
      const answer = await edits.set([{ label: wanted, state: "present", ids }]);
      const undoAll = async () => {
        await edits.undo({ edit: answer.edit });
        load({ focus: true });
      };
      const words = `${wanted} is present in ${counted(answer.changed, "more image")}.`;
      notice(words, answer.edit === null ? {} : { action: "Undo", act: undoAll });
      load({ focus: true });
    } catch (error) {
      notice(error.message, { problem: true });
    }
  }

  function setCurrent(index, { focus = false } = {}) {
    const all = tiles();
    current = Math.max(0, Math.min(index, all.length - 1));
    all.forEach((each, at) => {
      for (const part of each.querySelectorAll("button")) part.tabIndex = at === current ? 0 : -1;
    });
    if (focus) all[current]?.querySelector(".suggestion-link").focus();
  }

  const keys = {
    a: (made) => reply(made, "present"),
    r: (made) => reply(made, "absent"),
    s: (made) => reply(made, "skipped"),
    o: (made) => onOpen(made.dataset.id),
  };
  element.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select")) return;
    const undoing = (event.ctrlKey || event.metaKey) && event.key === "z";
    if (event.altKey || ((event.ctrlKey || event.metaKey) && !undoing)) return;
    const all = tiles();
    const made = event.target.closest(".suggestion");
    const move = made && MOVES[event.key];
    if (undoing || event.key === "u") undo();
    else if (event.key === "n" && label() !== null) load({ focus: true });
    else if (move) {
      const next = move(all.indexOf(made), columnsOf(all), all.length);
      if (next >= 0 && next < all.length) setCurrent(next, { focus: true });
    } else if (keys[event.key] && (made ?? all[current])) keys[event.key](made ?? all[current]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("focusin", (event) => {
    const at = tiles().indexOf(event.target.closest(".suggestion"));
    if (at !== -1 && at !== current) setCurrent(at);
  });
  chooser.addEventListener("change", () => go({ ...getState(), suggest: chooser.value || null }));
  threshold.addEventListener("change", setThreshold);
  acceptAll.addEventListener("click", acceptEverything);
  edits.onUndoChange(drawUndo);
  again.addEventListener("click", () => load({ focus: true }));

  return {
    element,
    /** Follows the label, the order and the filters of the page. */
    show(archive) {
      drawControls(archive);
      const wanted = JSON.stringify([label(), getState().confident, filterQuery(getState()).toString()]);
      if (label() === null) {
        asked = "";
        newest.next();
        list.replaceChildren();
        learned.textContent = "";
        curve.replaceChildren();
        message.textContent =
          "Choose a label that some images have. The page then suggests others, learned from the labels that are known.";
      } else if (wanted !== asked) {
        asked = wanted;
        load();
      }
    },
  };
}
