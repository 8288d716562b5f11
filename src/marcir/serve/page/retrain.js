// Train from here: the commands that make a better model from these labels, and the labels as a file.

import * as annotations from "./annotations-api.js";
import { byId, closeButton, el, icon } from "./dom.js";
import { download } from "./exports.js";
import { counted } from "./format.js";
import { announce } from "./notices.js";

export function makeRetrain() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("retrain"));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  async function copy(text, code, button) {
    try {
      await navigator.clipboard.writeText(text);
      button.lastChild.textContent = "Copied";
      announce("Copied.");
    } catch {
      // The clipboard is only for pages from this machine or over https.
      getSelection().selectAllChildren(code);
      announce("The command is selected. Press Ctrl C to copy it.");
    }
  }

  function step({ title, command }) {
    const code = el("code", {}, command);
    const button = el(
      "button",
      { class: "button", type: "button", "aria-label": `Copy: ${title}` },
      icon("copy"),
      "Copy",
    );
    button.addEventListener("click", () => copy(command, code, button));
    return el(
      "li",
      {},
      el("div", { class: "command-head" }, el("h3", {}, title), button),
      el("pre", { tabindex: "0", "aria-label": title }, code),
    );
  }

  function draw(...parts) {
    dialog.replaceChildren(
      closeButton(() => dialog.close()),
      el("h2", { id: "retrain-name" }, "Train with these labels"),
      ...parts,
    );
  }

  return {
    async open() {
      draw(el("p", { class: "muted" }, "Loading…"));
      dialog.showModal();
      try {
        const { labelled, commands, note } = await annotations.retrain();
        draw(
          el(
            "p",
            {},
            `A label is known of ${counted(labelled, "image")}. Run these commands in a terminal where the archive is:`,
          ),
          note && el("p", {}, note),
          el("ol", { class: "commands" }, ...commands.map(step)),
          el(
            "button",
            { class: "button", type: "button", on: { click: () => download(annotations.LABELS_FILE) } },
            icon("download"),
            "Download labels.csv",
          ),
          el(
            "p",
            { class: "muted small" },
            "The labels of the archive's table and of this page in one table; what it does not list is unknown.",
          ),
        );
      } catch (error) {
        draw(el("p", { class: "form-problem", role: "alert" }, icon("alert"), error.message));
      }
    },
  };
}
