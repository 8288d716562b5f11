// Filters by place and time: a box in degrees, an area from a file, two dates and a slider for them, and the chips
// of those that are on. They are only there where the archive has places.

import { labels } from "./api.js";
import { el, icon } from "./dom.js";
import { filterChip } from "./filter-chip.js";
import { geometryText, parseBox } from "./map-geometry.js";
import { hasPlaceFilter, withChanges, withoutPlaceFilter } from "./state.js";

const DAY = 86_400_000;
const MAX_AREA = 40_000; // characters in an address: 1,000 points, and less than the service reads
const SETTLE = 250; // milliseconds after which a slider that does not move is taken

const dayOf = (date) => Math.round(Date.parse(date) / DAY);
const dateOf = (day) => new Date(day * DAY).toISOString().slice(0, 10);

/** @param {{getState: () => import("./state.js").State, go: Function}} acts */
export function makePlaceFilters({ getState, go }) {
  const clear = el("button", { class: "button quiet", type: "button" }, "Clear");
  const box = el("input", {
    class: "field number",
    id: "filter-box",
    type: "text",
    placeholder: "west, south, east, north",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "filter-box-help",
  });
  const help = el("p", { class: "muted small", id: "filter-box-help" });
  const area = makeAreaChoice({ getState, go });
  const dates = makeDates({ getState, go });

  function takeBox() {
    const typed = box.value.replace(/\s+/g, "");
    const wrong = typed !== "" && parseBox(typed) === null;
    box.setAttribute("aria-invalid", String(wrong));
    help.textContent = wrong
      ? "Not a box: longitudes from -180 to 180, latitudes from -90 to 90, south below north."
      : "In degrees; or draw a box on the map.";
    help.classList.toggle("wrong", wrong);
    if (!wrong) go(withChanges(getState(), { bbox: typed || null }));
  }

  box.addEventListener("change", takeBox);
  clear.addEventListener("click", () => go(withoutPlaceFilter(getState())));

  return {
    /** @returns {HTMLElement[]} the section of the side column; none without places */
    build(archive) {
      if (!archive.extent) return [];
      dates.build(archive);
      return [
        el(
          "section",
          { class: "side-part" },
          el("div", { class: "side-head" }, el("h2", {}, "Place and time"), clear),
          el("label", { class: "small", for: "filter-box" }, "Box"),
          box,
          help,
          area.element,
          dates.element,
        ),
      ];
    },
    show(state) {
      box.value = (state.bbox ?? "").replaceAll(",", ", ");
      box.removeAttribute("aria-invalid");
      help.textContent = "In degrees; or draw a box on the map.";
      help.classList.remove("wrong");
      area.show();
      clear.hidden = !hasPlaceFilter(state);
      dates.show(state);
    },
  };
}

/** A button that takes polygons from a GeoJSON file, and what is wrong with them. */
function makeAreaChoice({ getState, go }) {
  const input = el("input", {
    type: "file",
    accept: ".geojson,.json,application/geo+json",
    hidden: true,
    "aria-label": "GeoJSON file with an area",
  });

  // Not at the edge of the page: the filters may be a drawer in front of it.
  const problem = el("p", { class: "small wrong", role: "alert", hidden: true });

  function say(words) {
    problem.textContent = words;
    problem.hidden = !words;
  }

  async function take(file) {
    say("");
    try {
      const within = geometryText(await file.text());
      const length = encodeURIComponent(within).length;
      if (length > MAX_AREA) {
        const [found, most] = [length, MAX_AREA].map((number) => number.toLocaleString("en"));
        throw new Error(`the area takes ${found} characters of an address, at most ${most} fit. Simplify it.`);
      }
      await labels({ ...getState(), collection: null, bbox: null, from: null, to: null, within }); // or it is refused
      go(withChanges(getState(), { within }));
    } catch (error) {
      say(`${file.name}: ${error.message}`);
    }
  }

  input.addEventListener("change", () => {
    if (input.files.length) take(input.files[0]);
    input.value = ""; // the same file can be chosen again
  });
  const button = el(
    "button",
    {
      class: "button",
      type: "button",
      title: "Only images that touch the polygons of a GeoJSON file",
      on: { click: () => input.click() },
    },
    icon("lasso"),
    "Area from a file",
  );
  return {
    element: el("div", { class: "area-file" }, button, input, problem),
    show: () => say(""),
  };
}

/** Two dates, and a slider with two handles where the archive spans more than a day. */
function makeDates({ getState, go }) {
  const field = (name, words) =>
    el(
      "label",
      { class: "small date" },
      words,
      el("input", { class: "field", type: "date", data: { name } }),
    );
  const handle = (name, words) => el("input", { type: "range", "aria-label": words, data: { name } });
  const fields = [field("from", "From"), field("to", "To")];
  const inputs = fields.map((each) => each.querySelector("input"));
  const handles = [handle("from", "Earliest date"), handle("to", "Latest date")];
  const slider = el("div", { class: "range-pair" }, ...handles);
  const element = el(
    "div",
    { class: "dates", hidden: true },
    el("div", { class: "date-fields" }, ...fields),
    slider,
  );
  let [first, last] = [0, 0];
  let timer = 0;

  /** Takes dates; the ends of the slider are no filter. */
  const take = (from, to) => {
    clearTimeout(timer);
    go(withChanges(getState(), { from, to }), { sameStep: "dates" });
  };
  const draw = (from, to) => {
    for (const [at, day] of [from, to].entries()) {
      handles[at].value = String(day);
      handles[at].setAttribute("aria-valuetext", dateOf(day));
      slider.style.setProperty(
        ["--from", "--to"][at],
        `${(100 * (day - first)) / Math.max(1, last - first)}%`,
      );
    }
  };

  for (const each of inputs)
    each.addEventListener("change", () => {
      const [from, to] = inputs.map((input) => input.value || null);
      const early = each === inputs[0];
      if (from && to && from > to) take(early ? from : to, early ? from : to);
      else take(from, to);
    });
  for (const [at, each] of handles.entries())
    each.addEventListener("input", () => {
      const days = handles.map((handle) => Number(handle.value));
      if (days[0] > days[1]) days[at] = days[1 - at]; // a handle stops at the other one
      draw(days[0], days[1]);
      inputs.forEach((input, which) => {
        input.value = dateOf(days[which]);
      });
      clearTimeout(timer);
      timer = setTimeout(
        () => take(days[0] > first ? dateOf(days[0]) : null, days[1] < last ? dateOf(days[1]) : null),
        SETTLE,
      );
    });

  return {
    element,
    build({ first_date: earliest, last_date: latest }) {
      element.hidden = earliest === null;
      if (element.hidden) return;
      [first, last] = [dayOf(earliest), dayOf(latest)];
      slider.hidden = first === last;
      for (const each of handles) Object.assign(each, { min: String(first), max: String(last), step: "1" });
      for (const each of inputs) Object.assign(each, { min: earliest, max: latest });
    },
    show(state) {
      if (element.hidden) return;
      inputs[0].value = state.from ?? "";
      inputs[1].value = state.to ?? "";
      const within = (date, otherwise) => Math.min(last, Math.max(first, dayOf(date ?? "") || otherwise));
      draw(within(state.from, first), within(state.to, last));
    },
  };
}

/** The filters by place and time that are on. */
export function placeChips(state, go) {
  const off = (changes) => () => go(withChanges(state, changes));
  const chips = [];
  if (state.bbox !== null)
    chips.push(filterChip(`box ${state.bbox.replaceAll(",", ", ")}`, off({ bbox: null })));
  if (state.within !== null) chips.push(filterChip("within an area", off({ within: null })));
  if (state.from !== null || state.to !== null) {
    const words =
      state.to === null
        ? `from ${state.from}`
        : state.from === null
          ? `until ${state.to}`
          : `${state.from} to ${state.to}`;
    chips.push(filterChip(words, off({ from: null, to: null })));
  }
  return chips;
}
