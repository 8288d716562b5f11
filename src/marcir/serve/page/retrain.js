// Train from here: the commands that make a better model from these labels, and the labels as a file.

import * as annotations from "./annotations-api.js";
import { byId, closeButton, el, icon } from "./dom.js";
import { download } from "./exports.js";
import { counted } from "./format.js";
import { announce } from "./notices.js";

export function makeRetrain() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("retrain"));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  async function copy(text, place, button) {
    try {
      await navigator.clipboard.writeText(text);
      button.lastChild.textContent = "Copied";
      announce("Copied.");
    } catch {
      // The clipboard is only for pages from this machine or over https.
      getSelection().selectAllChildren(place);
      announce("The text is selected. Press Ctrl C to copy it.");
    }
  }

  /** A command, in which a line does not break between the dashes of an option. */
  const commandText = (command) =>
    el(
      "code",
      {},
      ...command.split(/(--[\w.-]+)/).map((part, at) => (at % 2 ? el("span", { class: "option" }, part) : part)),
    );

  /** @param {{title: string, command: string}[]} commands */
  function steps(commands) {
    const list = el("ol", { class: "commands" }, ...commands.map(step));
    const button = el("button", { class: "button", type: "button" }, icon("copy"), "Copy all");
    button.addEventListener("click", () => copy(commands.map(({ command }) => command).join("\n"), list, button));
    return [list, button];
  }

  function step({ title, command }) {
    const code = commandText(command);
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
        const [list, copyAll] = steps(commands);
        draw(
          el(
            "p",
            {},
            `${counted(labelled, "image")} ${labelled === 1 ? "has" : "have"} a known label. Run these commands on the machine that has the archive:`,
          ),
          note && el("p", {}, note),
          list,
          el(
            "div",
            { class: "retrain-acts" },
            copyAll,
            el(
              "button",
              { class: "button", type: "button", on: { click: () => download(annotations.LABELS_FILE) } },
              icon("download"),
              "Download labels.csv",
            ),
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
