// Parts of the details of an image that has a place: coordinates to copy, a link to the scene that it is a window
// of, the window with its surroundings in any bands, and a scale bar.

import { el, icon, screenReaderText } from "./dom.js";
import { groundSize, groundWidth, metres } from "./format.js";
import { innerPoint, roundLength } from "./map-geometry.js";
import { announce } from "./notices.js";

const SURROUNDINGS = ["the window alone", "1 window on each side", "2 windows on each side"];
const BAR = 120; // pixels that a scale bar has at most

/** Facts of an image's place: [name, text or element]. */
export function placeFacts({ bbox, footprint }) {
  if (!bbox) return [];
  const centre = innerPoint({ bbox, footprint }).map((number) => Number(number.toFixed(6)));
  return [
    ["Centre (lon, lat)", copyable("the centre", centre.join(","))],
    ["Box (W, S, E, N)", copyable("the box", bbox.map((number) => Number(number.toFixed(6))).join(","))],
    footprint && ["Footprint", copyable("the footprint", JSON.stringify(footprint), "GeoJSON")],
    ["On the ground", el("span", { class: "ground-size" }, groundSize(bbox))],
  ].filter(Boolean);
}

/** The size of a window on the ground: a box around one that is turned, or at a pole, is larger. */
export function windowSize({ window: [, , width, height], resolution: [across, down] }) {
  return `${metres(width * across)} by ${metres(height * down)}`;
}

/** A link to the file of a scene; null for an address that is none of the web. */
export function sceneLink({ id, href }) {
  const address = new URL(href.replace(/^\//, ""), document.baseURI);
  if (!/^https?:$/.test(address.protocol)) return null;
  const here = address.origin === location.origin;
  return el(
    "a",
    {
      class: "button scene-link",
      href: address.href,
      title: id,
      download: here,
      target: here ? null : "_blank",
      rel: "noreferrer",
    },
    icon("download"),
    "Download the scene",
  );
}

/** A text, or a shorter one in its place, with a button that copies it. */
function copyable(words, text, shown = text.replaceAll(",", ", ")) {
  const copy = el(
    "button",
    { class: "mark copy", type: "button", title: `Copy ${words}`, "aria-label": `Copy ${words}` },
    icon("copy"),
  );
  copy.addEventListener("click", async () => {
    const done = await copyText(text, copy);
    announce(done ? `Copied ${words}.` : "The browser does not allow to copy.");
    copy.replaceChildren(icon(done ? "check" : "alert"));
    setTimeout(() => copy.replaceChildren(icon("copy")), 1500);
  });
  return el("span", { class: "copyable" }, el("span", { class: "number" }, shown), copy);
}

/** Copies a text; without TLS browsers have the old way only. */
async function copyText(text, beside) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", { class: "for-readers", "aria-hidden": "true" });
    field.value = text;
    beside.after(field); // inside the dialog, which keeps the focus
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    beside.focus();
    return done;
  }
}

/** The window of a scene in the details of an image; the choice of surroundings holds for the next one, too. */
export function makeWindowView() {
  let around = 1;

  /**
   * @param {{id: string, scene: object}} image
   * @param {(picture: HTMLImageElement, metresAcross: (picture: HTMLImageElement) => number|null,
   *   frame: number[]|null) => void} onPicture `frame`: left, top, width and height of the window in the picture
   * @returns {HTMLElement} its controls
   */
  return function windowControls({ id, scene }, onPicture) {
    const [x, y, width, height] = scene.window;
    const [columns, rows] = scene.size;
    let bands = null;
    let newest = 0;

    function load() {
      const query = new URLSearchParams({
        id,
        around: String(around),
        ...(bands && { bands: bands.join(",") }),
      });
      const picture = el("img", { alt: `Window of ${scene.id}, with ${SURROUNDINGS[around]}` });
      newest += 1;
      const mine = newest;
      const margin = around * scene.cut;
      const [left, top] = [Math.max(0, x - margin), Math.max(0, y - margin)];
      const across = Math.min(columns, x + width + margin) - left; // pixels of the scene
      const down = Math.min(rows, y + height + margin) - top;
      picture.addEventListener("load", () => {
        if (mine !== newest) return;
        // Large surroundings are shown coarser.
        const [wide, high] = [picture.naturalWidth / across, picture.naturalHeight / down];
        const frame = [(x - left) * wide, (y - top) * high, width * wide, height * high];
        onPicture(picture, () => scene.resolution[0] * across, around ? frame : null);
      });
      picture.src = `api/window?${query}`;
    }

    const choose = (words, options, chosen, act) => {
      const list = el(
        "select",
        { class: "field", "aria-label": words },
        ...options.map(([value, text]) => el("option", { value, selected: value === String(chosen) }, text)),
      );
      list.addEventListener("change", () => {
        act(Number(list.value));
        load();
      });
      return list;
    };
    const controls = el(
      "div",
      { class: "window-controls" },
      el(
        "label",
        { class: "small" },
        "Surroundings",
        choose(
          "Surroundings",
          SURROUNDINGS.map((words, number) => [String(number), words]),
          around,
          (number) => {
            around = number;
          },
        ),
      ),
    );
    if (scene.bands.length > 3) {
      const names = scene.bands.map(({ number, name }) => [String(number), `${number} ${name}`.trim()]);
      bands = scene.shown.length === 3 ? [...scene.shown] : Array(3).fill(scene.shown[0]);
      controls.append(
        el(
          "fieldset",
          { class: "band-picker" },
          el("legend", { class: "small" }, "Bands as red, green, blue"),
          ...["red", "green", "blue"].map((colour, at) =>
            choose(`Band shown as ${colour}`, names, bands[at], (number) => {
              bands[at] = number;
            }),
          ),
        ),
      );
    }
    load();
    return controls;
  };
}

/**
 * A scale bar, and the frame of the window within its surroundings, over a picture that is fitted into a place.
 * @param {HTMLElement} place
 */
export function makeScaleBar(place) {
  const words = el("span", {});
  const bar = el("p", { class: "detail-scale", hidden: true }, screenReaderText("Scale: "), words);
  const frame = el("div", { class: "detail-frame", hidden: true });
  let metresAcross = () => null;
  let window_ = null;

  function draw() {
    const picture = place.querySelector("img");
    const { naturalWidth, naturalHeight, clientWidth, clientHeight } = picture ?? {};
    const across = picture && naturalWidth ? metresAcross(picture) : null;
    bar.hidden = !across;
    frame.hidden = !window_ || !naturalWidth;
    if (!naturalWidth) return;
    const scale = Math.min(clientWidth / naturalWidth, clientHeight / naturalHeight);
    if (across) {
      const length = roundLength((BAR * across) / (naturalWidth * scale));
      words.textContent = metres(length);
      bar.style.inlineSize = `${(length * naturalWidth * scale) / across}px`;
    }
    if (window_) {
      const [left, top, width, height] = window_.map((pixels) => pixels * scale);
      const [edge, ceiling] = [
        (clientWidth - naturalWidth * scale) / 2,
        (clientHeight - naturalHeight * scale) / 2,
      ];
      Object.assign(frame.style, {
        left: `${edge + left}px`,
        top: `${ceiling + top}px`,
        width: `${width}px`,
        height: `${height}px`,
      });
    }
  }

  new ResizeObserver(draw).observe(place);
  place.append(bar, frame);
  return {
    /** For a picture of a box of degrees. */
    ofBox(bbox) {
      metresAcross = () => (bbox ? groundWidth(bbox) : null);
      window_ = null;
      place.querySelector("img")?.addEventListener("load", draw, { once: true });
      draw();
    },
    of(across, inside) {
      metresAcross = across;
      window_ = inside;
      draw();
    },
  };
}
