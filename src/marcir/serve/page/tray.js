// The examples for the next search, at the lower edge of the page. The draft is empty until an image is marked;
// then it starts with the images of the current search, so that "less like this" alone means: like the query,
// but not like this. The draft is kept until the tab is closed.

import { byId, el, icon } from "./dom.js";
import { announce, notice } from "./notices.js";
import { idRef, describeReference, thumbnail } from "./query-images.js";
import { withQuery, examplesOf } from "./state.js";

const KEY = "marcir:examples";
const isReference = (ref) => typeof ref === "string" && /^(id|vector|collection):./.test(ref);

/** @returns {{like: string[], unlike: string[]}|null} */
function stored() {
  try {
    const { like, unlike } = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    return { like: like.filter(isReference), unlike: unlike.filter(isReference) };
  } catch {
    return null; // nothing is stored, or something else
  }
}

function store(draft) {
  try {
    if (draft === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, JSON.stringify(draft));
  } catch {
    // storage is full or disabled: the examples are kept until the page is reloaded
  }
}

const same = (a, b) =>
  ["like", "unlike"].every(
    (way) => a[way].length === b[way].length && a[way].every((ref) => b[way].includes(ref)),
  );

/** @param {{getState: () => import("./state.js").State, go: Function, onChange: () => void}} acts */
export function makeTray({ getState, go, onChange }) {
  const place = byId("tray");
  /** @type {{like: string[], unlike: string[]}|null} */
  let draft = stored();

  const marks = () => draft ?? { like: getState().like, unlike: getState().unlike };
  const markOfRef = (ref) =>
    marks().like.includes(ref) ? "like" : marks().unlike.includes(ref) ? "unlike" : null;

  function set(next) {
    const changed =
      next !== null && (next.like.length || next.unlike.length) && !same(next, examplesOf(getState()));
    draft = changed ? next : null;
    store(draft);
    show();
    onChange();
  }

  function mark(id, way) {
    const ref = idRef(id);
    const before = draft ?? examplesOf(getState());
    const on = !before[way].includes(ref);
    const next = {
      like: before.like.filter((each) => each !== ref),
      unlike: before.unlike.filter((each) => each !== ref),
    };
    if (on) next[way].push(ref);
    set(next);
    const words = way === "like" ? "more like this" : "less like this";
    announce(on ? `Marked ${words}. Press s to search with the examples.` : `No longer marked ${words}.`);
  }

  function search() {
    if (!draft?.like.length) return;
    const { like, unlike } = draft;
    draft = null;
    // One example without counter-examples is a search with that image.
    const alone = like.length === 1 && unlike.length === 0;
    const id = alone && like[0].startsWith("id:") ? like[0].slice(3) : null;
    const vector = alone && like[0].startsWith("vector:") ? like[0].slice(7) : null;
    go(withQuery(getState(), alone ? { id, vector } : { like, unlike }), { top: true });
  }

  function clear() {
    const lost = draft;
    if (lost === null) return;
    set(null);
    notice("The examples are cleared.", { action: "Undo", act: () => set(lost) });
  }

  function item(ref, way) {
    const { name } = describeReference(ref);
    const off = () => set({ ...draft, [way]: draft[way].filter((each) => each !== ref) });
    return el(
      "li",
      { title: ref.startsWith("id:") ? ref.slice(3) : name },
      thumbnail(describeReference(ref).source),
      el(
        "button",
        { class: "remove", type: "button", "aria-label": `Remove ${name}`, on: { click: off } },
        icon("close"),
      ),
    );
  }

  function group(way, words, sign) {
    const refs = draft[way];
    if (!refs.length) return null;
    return el(
      "div",
      { class: `tray-group tray-${way}` },
      el("h2", {}, icon(sign), words),
      el("ul", { "aria-label": words }, ...refs.map((ref) => item(ref, way))),
    );
  }

  function show() {
    place.hidden = draft === null;
    if (draft === null) return place.replaceChildren();
    const ready = draft.like.length > 0;
    return place.replaceChildren(
      el(
        "div",
        { class: "tray-groups" },
        ...[group("like", "More like", "plus"), group("unlike", "Less like", "minus")].filter(Boolean),
      ),
      el(
        "div",
        { class: "tray-acts" },
        !ready
          ? el("p", { class: "muted small", id: "tray-hint" }, "Mark at least one image as more like.")
          : "",
        el(
          "button",
          {
            class: "button primary",
            type: "button",
            id: "tray-search",
            disabled: !ready,
            on: { click: search },
          },
          icon("search"),
          "Search with these",
        ),
        el("button", { class: "button quiet", type: "button", on: { click: clear } }, "Clear"),
      ),
    );
  }

  return {
    mark,
    search,
    clear,
    markOf: (id) => markOfRef(idRef(id)),
    isOpen: () => draft !== null,
    /** After a new search: a draft that equals it is cleared. */
    follow: () => set(draft),
  };
}
