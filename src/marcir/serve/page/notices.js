// Short messages at the edge of the page, and texts for screen readers.

import { byId, el, icon } from "./dom.js";

const SECONDS = 8;
let busy = null;

/** A text for screen readers only. */
export function announce(text) {
  byId("live").textContent = text;
}

/**
 * @param {string} text
 * @param {{problem?: boolean, action?: string, act?: () => void, lasting?: boolean}} [options]
 */
export function notice(text, { problem = false, action, act, lasting = problem } = {}) {
  const gone = () => shown.remove();
  const shown = el(
    "div",
    { class: problem ? "notice notice-problem" : "notice", role: problem ? "alert" : "status" },
    icon(problem ? "alert" : "info"),
    el("p", {}, text),
    act && el("button", { class: "button", type: "button", on: { click: () => (gone(), act()) } }, action),
    el(
      "button",
      { class: "icon-button", type: "button", "aria-label": "Close this message", on: { click: gone } },
      icon("close"),
    ),
  );
  byId("notices").append(shown);
  if (!lasting) setTimeout(gone, SECONDS * 1000);
  return gone;
}

/** Shows that the service is busy: one message, however many requests wait. */
export function showBusy(seconds) {
  busy?.();
  const text = `The service is busy. Trying again in ${seconds === 1 ? "a second" : `${seconds} seconds`}.`;
  const gone = notice(text, { lasting: true });
  const timer = setTimeout(gone, seconds * 1000);
  busy = () => (clearTimeout(timer), gone());
}

/** Removes the message of a busy service. */
export function hideBusy() {
  busy?.();
  busy = null;
}

/** Removes the messages of problems, before a new search. */
export function clearProblemNotices() {
  for (const shown of byId("notices").querySelectorAll(".notice-problem")) shown.remove();
}
