// The token of a service that needs one. It is sent once, in exchange for a cookie that scripts cannot read.

import * as api from "./api.js";
import { byId, el, icon } from "./dom.js";

/** Asks for the token, and calls back once it is accepted. One form, however many requests were refused. */
export function makeSession() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("session"));
  let waiting = [];

  // Without the token the page would be empty. Chromium closes the dialog when Esc is pressed again.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("close", () => {
    if (waiting.length && !dialog.open) dialog.showModal();
  });

  function ask(then) {
    waiting.push(then);
    if (dialog.open) return;
    const field = el("input", {
      class: "field",
      type: "password",
      id: "token",
      autocomplete: "current-password",
      required: true,
      "aria-describedby": "token-problem",
    });
    const problem = el("p", { class: "form-problem", id: "token-problem", role: "alert" });
    const button = el("button", { class: "button primary", type: "submit" }, "Open the archive");
    const submit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      problem.replaceChildren();
      try {
        await api.openSession(field.value);
        dialog.close();
        const ready = waiting;
        waiting = [];
        for (const act of ready) act();
      } catch (error) {
        problem.replaceChildren(
          icon("alert"),
          error.status === 401 ? "This is not the token. Ask whoever runs the service." : error.message,
        );
        field.select();
      } finally {
        button.disabled = false;
      }
    };
    dialog.replaceChildren(
      el("h2", { id: "session-name" }, "This archive needs a token"),
      el("p", { class: "muted" }, "Whoever runs the service has it."),
      el(
        "form",
        { class: "token-form", on: { submit } },
        el("label", { for: "token" }, "Token"),
        field,
        problem,
        button,
      ),
    );
    dialog.showModal();
    field.focus();
  }

  return { ask };
}
