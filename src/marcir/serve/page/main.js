// The page: one state (the URL), one function that draws everything from it, and the parts that change it.

import * as api from "./api.js";
import { byId, drawIcons, el, icon } from "./dom.js";
import { makeDetail } from "./detail.js";
import { makeFilters } from "./filters.js";
import { makeGrid } from "./grid.js";
import { whenHistoryReady, finishHistoryStep, enterDetail, isDetail, leaveDetail } from "./history.js";
import { listen } from "./keyboard.js";
import { makeLabelField } from "./label-field.js";
import { announce, showBusy, hideBusy, notice, clearProblemNotices } from "./notices.js";
import { makeProblem } from "./problem.js";
import { describeQuery, makeQuery } from "./query.js";
import { makeSession } from "./session.js";
import { withQuery, filterQuery, kindOf, readState, writeState } from "./state.js";
import { makeThemeSwitch } from "./theme-switch.js";
import { makeToolbar, places } from "./toolbar.js";
import { makeTray } from "./tray.js";
import { makeUpload } from "./upload.js";
import { makeWelcome } from "./welcome.js";
import { count, counted } from "./format.js";

/** Milliseconds before a search shows that it is running: faster ones must not flicker. */
const LOADING_DELAY = 150;

let state = readState(location.search);
let archive = null;
let lastStep = null;
let countedFilter = "";
const searches = new api.Newest();
const counts = new api.Newest();

const getState = () => state;
const hrefOf = (id) => address(withQuery(state, { id }));
const address = (next) => `?${writeState(next)}`;

/**
 * Goes to another state: a new entry of the history, except for repeated changes of one control (a slider).
 * @param {{top?: boolean, sameStep?: string|null}} [options]
 */
const go = (next, options = {}) => whenHistoryReady(() => move(next, options));

function move(next, { top = false, sameStep = null }) {
  const fresh = asks(next) !== asks(state);
  if (address(next) === address(state)) return;
  const overDetail = isDetail(history.state); // this search already has an entry below it
  if (!overDetail) history.replaceState({ scroll: scrollY }, "");
  if (overDetail || (sameStep !== null && sameStep === lastStep))
    history.replaceState({}, "", address(next));
  else history.pushState({}, "", address(next));
  detail.close();
  lastStep = sameStep;
  state = next;
  clearProblemNotices();
  tray.follow();
  if (top || fresh) scrollTo({ top: 0 });
  refresh({ fresh });
}

/** The query, without filters and pages. */
const asks = ({ id, vector, like, unlike, label, seed }) =>
  JSON.stringify([id, vector, like, unlike, label, seed]);

const home = () => go(withQuery({ ...readState(""), limit: state.limit }, {}), { top: true });
const searchWith = (id) => go(withQuery(state, { id }), { top: true });
const searchLabel = (name) =>
  go(withQuery(state, { label: [...new Set([...state.label, name])] }), { top: true });
const otherImages = () => go({ ...state, seed: state.seed + 1 });
const refreshMarks = () => {
  grid.mark(tray.markOf);
  detail.mark(tray.markOf);
};

const session = makeSession();
const tray = makeTray({ getState, go, onChange: refreshMarks });
const detail = makeDetail({
  onSearch: searchWith,
  onMark: tray.mark,
  onOpen: enterDetail,
  onClose(id) {
    leaveDetail();
    grid.focus(id);
  },
});
const grid = makeGrid({ hrefOf, onSearch: searchWith, onMark: tray.mark, onOpen: detail.open });
const filters = makeFilters({ getState, go });
const labelField = makeLabelField({
  onLabel(name) {
    grid.focusNext(); // so that the arrow keys work after a label was typed
    searchLabel(name);
  },
});
const query = makeQuery({ go, onOpen: detail.open });
const toolbar = makeToolbar({ go, onFilters: openDrawer, onOther: otherImages });
const problem = makeProblem({
  go,
  onAgain: () => (archive ? refresh({ fresh: true }) : begin()),
  onHome: home,
});
const upload = makeUpload({
  getArchive: () => archive,
  onVector: (vector) => go(withQuery(state, { vector }), { top: true }),
  onVectors: (like) => go(withQuery(state, { like }), { top: true }),
  onWait: waitForUpload,
  onToken: session.ask,
});
const welcome = makeWelcome({ onLabel: searchLabel, onChoose: upload.choose });

/** Draws the page from its state. */
async function refresh({ fresh, scroll = null }) {
  const asked = state;
  const signal = searches.next();
  upload.cancel();
  document.title = `${describeQuery(state)} · ${archive.name} · marcir`;
  welcome.show(kindOf(state) === null && archive.images > 0);
  query.show(state, null);
  filters.show(state);
  problem.hide();
  recount();
  const timer = setTimeout(() => {
    if (fresh) toolbar.bare(state, "Searching…");
    grid.loading(state.limit, fresh);
  }, LOADING_DELAY);
  try {
    const answer = await (kindOf(asked)
      ? api.search(asked, { signal, onBusy: showBusy })
      : api.sample(asked, { signal, onBusy: showBusy }));
    if (signal.aborted) return;
    show(asked, answer);
    if (scroll !== null) scrollTo({ top: scroll });
  } catch (error) {
    if (error.name === "AbortError") return;
    fail(error, () => refresh({ fresh }));
  } finally {
    clearTimeout(timer);
  }
}

function show(asked, answer) {
  const found = answer.query ?? { labels: [], unknown: [] };
  hideBusy();
  query.show(asked, found);
  toolbar.show(asked, answer, archive);
  detail.setHits(answer.hits, { query: found, offset: asked.offset });
  grid.show(answer.hits, { query: found, offset: asked.offset });
  refreshMarks();
  if (answer.hits.length) problem.hide();
  else problem.nothing(asked, archive);
  announce(
    `${describeQuery(asked)}: ${kindOf(asked) ? places(asked, answer) : counted(answer.hits.length, "image")}`,
  );
}

function fail(error, again) {
  grid.clear();
  if (error.status === 401) {
    session.ask(again);
    return;
  }
  toolbar.bare(state, "");
  problem.failed(error, state);
}

/** Updates the counts beside the labels, which depend on the filter only. */
async function recount() {
  const wanted = filterQuery(state).toString();
  if (wanted === countedFilter) return;
  const signal = counts.next();
  try {
    const found = await api.labels(state, { signal });
    if (signal.aborted) return;
    countedFilter = wanted;
    filters.setCounts(found);
  } catch (error) {
    // The search has the same filter and shows the error; old counts do no harm meanwhile.
    if (error.name !== "AbortError" && error.status !== 401) console.warn(error.message);
  }
}

/** Fades the old images until an upload is answered; returns the function that ends the waiting. */
function waitForUpload(words) {
  const gone = notice(words, { lasting: true });
  grid.loading(state.limit, false);
  return () => {
    gone();
    grid.settle();
  };
}

/** On narrow screens the side column moves into a dialog, which keeps the focus and closes with Esc. */
function openDrawer() {
  const drawer = /** @type {HTMLDialogElement} */ (byId("drawer"));
  const done = el(
    "button",
    { class: "button primary", type: "button", on: { click: () => drawer.close() } },
    "Show the images",
  );
  const close = el(
    "button",
    {
      class: "icon-button close",
      type: "button",
      "aria-label": "Close",
      on: { click: () => drawer.close() },
    },
    icon("close"),
  );
  drawer.replaceChildren(close, byId("filters"), el("div", { class: "drawer-foot" }, done));
  drawer.addEventListener("close", () => byId("side").append(byId("filters")), { once: true });
  drawer.showModal();
}

async function begin() {
  problem.hide();
  grid.loading(state.limit, true);
  try {
    archive = await api.archive({ onBusy: showBusy });
  } catch (error) {
    fail(error, begin);
    return;
  }
  byId("archive-name").textContent = archive.name;
  byId("archive-name").title = `${archive.name}: ${count(archive.images)} images, marcir ${archive.version}`;
  filters.build(archive);
  labelField.build(archive);
  welcome.build(archive);
  refresh({ fresh: true });
}

drawIcons();
makeThemeSwitch();
listen({ grid, tray, labelField, onOpen: detail.open, onPage: toolbar.page });
byId("choose").addEventListener("click", upload.choose);
byId("home").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  home();
});
byId("drawer").addEventListener(
  "click",
  (event) => event.target === byId("drawer") && byId("drawer").close(),
);
matchMedia("(min-width: 60rem)").addEventListener("change", () => byId("drawer").close());
history.scrollRestoration = "manual"; // the images are not there yet when the browser would scroll
addEventListener("popstate", (event) => {
  lastStep = null;
  if (finishHistoryStep()) return;
  if (!isDetail(event.state)) detail.close();
  const next = readState(location.search);
  if (address(next) === address(state)) {
    if (isDetail(event.state)) detail.open(event.state.detail);
    return;
  }
  const fresh = asks(next) !== asks(state);
  state = next;
  tray.follow();
  if (archive) refresh({ fresh, scroll: event.state?.scroll ?? 0 });
});
begin();
