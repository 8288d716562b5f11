// Short messages at the edge of the page, and words for screen readers.

import { byId, el, icon } from "./dom.js";

const SECONDS = 8;
let busy = null;

/** Says something to screen readers alone. */
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

/** The service asks to wait: one message, however many requests wait. */
export function busyFor(seconds) {
  busy?.();
  const text = `The service is busy. Trying again in ${seconds === 1 ? "a second" : `${seconds} seconds`}.`;
  const gone = notice(text, { lasting: true });
  const timer = setTimeout(gone, seconds * 1000);
  busy = () => (clearTimeout(timer), gone());
}

/** The service has answered. */
export function busyOver() {
  busy?.();
  busy = null;
}

/** Takes messages of problems away: something newer is asked. */
export function settleNotices() {
  for (const shown of byId("notices").querySelectorAll(".notice-problem")) shown.remove();
}
