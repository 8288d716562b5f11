// The search field for labels at the top of the page.

import { byId, el } from "./dom.js";
import { count } from "./format.js";

const MAX_OPTIONS = 10;

/** @param {{onLabel: (name: string) => void}} acts */
export function makeLabelField({ onLabel }) {
  const input = /** @type {HTMLInputElement} */ (byId("label-input"));
  const options = byId("label-options");
  let labels = [];
  let found = [];
  let active = -1;

  function open() {
    const typed = input.value.trim().toLocaleLowerCase();
    const begins = (name) => name.toLocaleLowerCase().startsWith(typed);
    found = labels.filter(({ name }) => name.toLocaleLowerCase().includes(typed));
    // What begins with the letters comes first; within that the order by count stays.
    found = [...found.filter(({ name }) => begins(name)), ...found.filter(({ name }) => !begins(name))].slice(
      0,
      MAX_OPTIONS,
    );
    active = typed && found.length ? 0 : -1;
    draw();
  }

  function draw() {
    const items = found.map(({ name, count: carried }, at) =>
      el(
        "li",
        {
          role: "option",
          id: `label-option-${at}`,
          "aria-selected": String(at === active),
          on: { mousedown: (event) => (event.preventDefault(), choose(at)) },
        },
        el("span", {}, name),
        el("span", { class: "number muted" }, count(carried)),
      ),
    );
    const nothing = el(
      "li",
      { role: "option", "aria-disabled": "true", "aria-selected": "false", class: "muted" },
      "No label has this in its name",
    );
    options.replaceChildren(...(items.length ? items : [nothing]));
    options.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", `label-option-${active}`);
      options.children[active].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function close() {
    options.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(at) {
    const name = found[at]?.name;
    if (name === undefined) return;
    input.value = "";
    close();
    onLabel(name);
  }

  input.addEventListener("input", open);
  input.addEventListener("focus", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (options.hidden) return open();
      const step = event.key === "ArrowDown" ? 1 : -1;
      active = found.length ? (active + step + found.length) % found.length : -1;
      draw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(active);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      if (!options.hidden && input.value === "") input.blur();
      input.value = "";
      close();
    }
    return undefined;
  });

  return {
    build(archive) {
      labels = archive.labels.filter(({ count: carried }) => carried > 0); // others are unknown everywhere
      byId("label-field").hidden = labels.length === 0;
    },
    focus: () => input.focus(),
  };
}
