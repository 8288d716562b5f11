// One large image, with everything that is known of it.

import * as api from "./api.js";
import { byId, el, icon, stepButton } from "./dom.js";
import { MAY_SHARE, agreementBadge, agreementOf, labelList, markButtons, similarityBar } from "./tile.js";
import { count, shortName } from "./format.js";
import { notice } from "./notices.js";
import { makeScaleBar, makeWindowView, placeFacts, sceneLink, windowSize } from "./map-detail.js";

/**
 * @param {{onSearch: Function, onMark: Function, onOpen: (id: string) => void,
 *   onClose: (id: string) => void, labelsOf: (image: any, onChanged: () => void) => Node|null}} acts
 *   `labelsOf`: what the details show of the labels of an image beside their names
 */
export function makeDetail({ onSearch, onMark, onOpen, onClose, labelsOf }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("detail"));
  const newest = new api.Newest();
  let hits = [];
  let context = { query: { labels: [], unknown: [] }, offset: 0 };
  let shown = null;
  let markOf = () => null;
  let scale = null;
  const windowControls = makeWindowView();

  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    newest.next();
    const id = shown;
    shown = null;
    dialog.replaceChildren();
    onClose(id);
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.target.matches("select, input")) return;
    if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else if (event.key === "+" || event.key === "=" || event.key === "m") onMark(shown, "like");
    else if (event.key === "-" || event.key === "l") onMark(shown, "unlike");
    else return;
    event.preventDefault();
  });

  const index = () => hits.findIndex((hit) => hit.id === shown);
  const step = (by) => index() !== -1 && hits[index() + by] && open(hits[index() + by].id);

  async function open(id) {
    shown = id;
    const signal = newest.next();
    const hit = hits.find((each) => each.id === id);
    if (hit) draw(hit);
    else dialog.replaceChildren(el("p", { class: "detail-wait", id: "detail-name" }, "Loading…"));
    if (!dialog.open) dialog.showModal();
    onOpen(id);
    try {
      const known = await api.image(id, { signal });
      if (!hit) draw(known);
      showOriginal(known);
      showScene(known);
      showLabels(known);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!hit) {
        dialog.close(); // there is nothing to show in it
        const again = error.isRefusal ? {} : { action: "Try again", act: () => open(id) };
        notice(error.message, { problem: true, ...again });
        return;
      }
      const message = el("p", { class: "detail-problem", role: "alert" }, icon("alert"), error.message);
      dialog.querySelector(".detail-picture").append(message);
    }
  }

  /** Replaces the thumbnail when the original is loaded. */
  function showOriginal({ original, id, bbox }) {
    const picture = dialog.querySelector(".detail-picture");
    const download = dialog.querySelector(".detail-download");
    download.hidden = !original;
    if (!original) return;
    const large = el("img", { alt: `Image ${shortName(id)}`, src: api.originalUrl(id) });
    large.addEventListener("load", () => {
      if (shown !== id) return;
      picture.querySelector("img")?.replaceWith(large);
      scale.ofBox(bbox);
    });
    large.addEventListener("error", () => {
      if (shown !== id) return;
      download.hidden = true;
      picture.append(
        el(
          "p",
          { class: "detail-problem" },
          icon("alert"),
          "The original cannot be shown; this is its thumbnail. Has the file moved since it was indexed?",
        ),
      );
    });
  }

  /** Shows the states of labels, where they can be changed. */
  function showLabels(image) {
    const part = labelsOf(image, async () => shown === image.id && showLabels(await api.image(image.id)));
    const before = dialog.querySelector(".label-detail");
    if (part && before) before.replaceWith(part);
    else if (part) dialog.querySelector(".facts").before(part);
  }

  /** Replaces the thumbnail by the window with its surroundings, where the service has the scene. */
  function showScene({ scene, id }) {
    if (!scene) return;
    dialog.querySelector(".ground-size")?.replaceChildren(windowSize(scene));
    dialog.querySelector(".detail-acts").append(sceneLink(scene) ?? "");
    const controls = windowControls({ scene, id }, (picture, metresAcross, frame) => {
      if (shown !== id) return;
      dialog.querySelector(".detail-picture > img").replaceWith(picture);
      scale.of(metresAcross, frame);
    });
    dialog.querySelector(".detail-acts").after(controls);
  }

  const closeButton = () =>
    el(
      "button",
      {
        class: "icon-button close",
        type: "button",
        "aria-label": "Close",
        title: "Close (Esc)",
        on: { click: () => dialog.close() },
      },
      icon("close"),
    );

  function draw(hit) {
    const had = document.activeElement?.dataset?.keep;
    dialog.replaceChildren(
      closeButton(),
      el(
        "div",
        { class: "detail-picture" },
        el("img", { src: api.thumbnailUrl(hit.id), alt: `Image ${shortName(hit.id)}` }),
        ...arrows(),
      ),
      el("div", { class: "detail-words" }, ...head(hit), acts(hit), facts(hit)),
    );
    scale = makeScaleBar(dialog.querySelector(".detail-picture"));
    scale.ofBox(hit.bbox);
    follow();
    if (had) dialog.querySelector(`[data-keep="${had}"]`)?.focus();
  }

  function arrows() {
    const at = index();
    if (at === -1) return [];
    return [
      stepButton("left", "Previous image", hits[at - 1] && (() => step(-1))),
      stepButton("right", "Next image", hits[at + 1] && (() => step(1))),
    ];
  }

  function head(hit) {
    const at = index();
    const agreement = at === -1 ? null : agreementOf(hit, context.query);
    const place =
      hit.similarity === null
        ? null
        : el("span", { class: "muted number" }, `Place ${count(context.offset + at + 1)}`);
    return [
      el("h2", { id: "detail-name" }, shortName(hit.id)),
      hit.similarity !== null &&
        el(
          "div",
          { class: "detail-rank" },
          place,
          similarityBar(hit.similarity),
          agreement && agreementBadge(agreement),
        ),
      hit.labels.length + hit.unknown.length
        ? labelList(hit)
        : el("p", { class: "muted small" }, hit.labelled ? "No labels" : "Not labelled"),
    ].filter(Boolean);
  }

  function acts(hit) {
    const [like, unlike] = markButtons(hit.id, onMark);
    like.append(el("span", { "aria-hidden": "true" }, "More like"));
    unlike.append(el("span", { "aria-hidden": "true" }, "Less like"));
    for (const button of [like, unlike]) button.className = "button mark-button";
    const search = () => {
      dialog.close();
      onSearch(hit.id);
    };
    return el(
      "div",
      { class: "detail-acts" },
      el(
        "button",
        { class: "button primary", type: "button", on: { click: search } },
        icon("search"),
        "Search with this",
      ),
      like,
      unlike,
      el(
        "a",
        {
          class: "button detail-download",
          href: api.downloadUrl(hit.id),
          download: shortName(hit.id),
          hidden: true,
        },
        icon("download"),
        "Download original",
      ),
    );
  }

  function facts(hit) {
    const rows = [["Id", hit.id]];
    if (hit.width && hit.height) rows.push(["Size", `${count(hit.width)} × ${count(hit.height)} pixels`]);
    if (hit.date) rows.push(["Date", hit.date]);
    rows.push(...placeFacts(hit));
    const agreement = agreementWords(hit);
    if (agreement) rows.push(["Agreement", agreement]);
    for (const [name, value] of Object.entries(hit.metadata ?? {})) rows.push([name, String(value)]);
    return el(
      "dl",
      { class: "facts" },
      ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
    );
  }

  function agreementWords(hit) {
    if (index() !== -1 && agreementOf(hit, context.query)?.level === "open")
      return `${MAY_SHARE}: one that is unknown for the query or for this image`;
    if (hit.agreement === null || hit.agreement === undefined) return null;
    const without = hit.unknown.length || context.query.unknown.length ? ", without unknown ones" : "";
    return `${hit.agreement.toFixed(2)} (labels in common / labels of either${without})`;
  }

  function follow() {
    const mark = shown === null ? null : markOf(shown);
    for (const button of dialog.querySelectorAll("[data-mark]"))
      button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
  }

  return {
    open,
    close: () => dialog.close(),
    setHits(list, about) {
      hits = list;
      context = about;
    },
    mark(of) {
      markOf = of;
      follow();
    },
  };
}
