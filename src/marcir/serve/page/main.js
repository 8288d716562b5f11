// The page: one state (the URL), one function that draws everything from it, and the parts that change it.

import * as api from "./api.js";
import { byId, drawIcons, el, icon } from "./dom.js";
import { makeCollectionHead } from "./collection-head.js";
import { makeCollections } from "./collections.js";
import { makeDensity } from "./density.js";
import { makeDetail } from "./detail.js";
import { makeFilters } from "./filters.js";
import { makeGrid } from "./grid.js";
import {
  beginWithDetail,
  enterDetail,
  finishHistoryStep,
  isDetail,
  isDialog,
  isLabelling,
  leaveDialog,
  whenHistoryReady,
} from "./history.js";
import { listen } from "./keyboard.js";
import { makeLabelField } from "./label-field.js";
import { makeMapPanel } from "./map-panel.js";
import { announce, showBusy, hideBusy, notice, clearProblemNotices } from "./notices.js";
import { makeProblem } from "./problem.js";
import { describeQuery, makeQuery } from "./query.js";
import { makeSelectionBar } from "./selection-bar.js";
import { makeSelection } from "./selection.js";
import { makeSession } from "./session.js";
import { filterQuery, hasFilter, isRandom, kindOf, readState, withQuery, writeState } from "./state.js";
import { makeThemeSwitch } from "./theme-switch.js";
import { makeToolbar, places } from "./toolbar.js";
import { makeTray } from "./tray.js";
import { makeUpload } from "./upload.js";
import { makeWelcome } from "./welcome.js";
import { makeWork } from "./work.js";
import { count } from "./format.js";

/** Milliseconds before a search shows that it is running: faster ones must not flicker. */
const LOADING_DELAY = 150;

let state = readState(location.search);
let archive = null;
let lastStep = null;
/** Filter and number of the images that the counts beside the labels are of. */
let countedFilter = "";
let imageAtPoint = null;
let passing = 0;
/** The image in the address at which the page was loaded; it is opened when its neighbours are there. */
let firstDetail = new URLSearchParams(location.search).get("detail");
const searches = new api.Newest();
const counts = new api.Newest();

const getState = () => state;
const hrefOf = (id) => address(withQuery(state, { id }));
const address = (next) => `?${writeState(next)}`;
const detailAddress = (id) => {
  const query = writeState(state);
  query.append("detail", id);
  return `?${query}`;
};

/**
 * Goes to another state: a new entry of the history, except for repeated changes of one control (a slider).
 * @param {{top?: boolean, sameStep?: string|null, replace?: boolean}} [options]
 */
const go = (next, options = {}) => whenHistoryReady(() => move(next, options));

function move(next, { top = false, sameStep = null, replace = false }) {
  const fresh = asks(next) !== asks(state);
  if (address(next) === address(state)) return;
  const overDialog = isDialog(history.state); // this search already has an entry below it
  if (!overDialog) history.replaceState({ scroll: scrollY }, "");
  if (overDialog || replace || (sameStep !== null && sameStep === lastStep))
    history.replaceState({}, "", address(next));
  else history.pushState({}, "", address(next));
  detail.close();
  lastStep = sameStep;
  state = next;
  clearProblemNotices();
  tray.follow();
  selection.follow();
  if (top || fresh) scrollTo({ top: 0 });
  refresh({ fresh });
}

/** The query, or the order of the images without one; not filters and pages. */
const asks = (of) =>
  JSON.stringify([of.id, of.vector, of.like, of.unlike, of.label, of.at, of.sort, of.order, of.seed]);

const home = () => go(withQuery({ ...readState(""), limit: state.limit }, {}), { top: true });
const searchWith = (id) => go(withQuery(state, { id }), { top: true });
const searchLabel = (name) =>
  go(withQuery(state, { label: [...new Set([...state.label, name])] }), { top: true });
const otherImages = () => go({ ...state, seed: state.seed + 1 });
const refreshMarks = () => {
  grid.mark(tray.markOf);
  detail.mark(tray.markOf);
};

/** Keeps what the map shows in the address, without a new entry of the history. */
function keepView(view) {
  if (isDialog(history.state)) return;
  state = { ...state, map: view };
  history.replaceState(history.state, "", address(state));
}

/** The state, with the image at a point on the ground as the query: marks begin with it. */
function stateWithImage() {
  return state.at !== null && imageAtPoint !== null ? withQuery(state, { id: imageAtPoint }) : state;
}

const session = makeSession();
const selection = makeSelection({ getState, getShown: () => grid.ids() });
const density = makeDensity();
const tray = makeTray({ getState: stateWithImage, go, onChange: refreshMarks });
const detail = makeDetail({
  onSearch: searchWith,
  onMark: tray.mark,
  onOpen: (id) => enterDetail(id, detailAddress(id)),
  onClose(id) {
    leaveDialog(address(state));
    grid.focus(id);
    work.follow();
  },
  labelsOf: (image, onChanged) => work.labelDetail(image, onChanged),
});
const grid = makeGrid({ hrefOf, onSearch: searchWith, onMark: tray.mark, onOpen: detail.open, selection });
const selectionBar = makeSelectionBar({ getState, go, getPassing: knownPassing, selection });
const collections = makeCollections({ getState, go, selection, onChange: reload, onToken: session.ask });
const collectionHead = makeCollectionHead({ go, collections });
selectionBar.addAction({
  sign: "collection",
  words: () => (collections.isEditable() ? "Add to collection" : null),
  act: collections.addSelected,
});
selectionBar.addAction({
  sign: "minus",
  words: () =>
    collections.isEditable() && state.collection !== null ? `Remove from ${state.collection}` : null,
  act: collections.removeSelected,
});
const work = makeWork({
  getState,
  go,
  address,
  selection,
  getShown: () => grid.ids(),
  focusedId: () => grid.focusedId(),
  nextImages,
  getTotal: () => (kindOf(state) === null && state.offset === 0 ? knownPassing() : null),
  onOpen: detail.open,
  onLabelled: labelled,
  onFilters: openDrawer,
  onToken: session.ask,
});
selectionBar.addAction({
  sign: "label",
  words: () => (work.isEditable() ? "Label" : null),
  act: work.labelSelection,
});
const filters = makeFilters({ getState, go });
const labelField = makeLabelField({
  onLabel(name) {
    grid.focusNext(); // so that the arrow keys work after a label was typed
    searchLabel(name);
  },
});
const query = makeQuery({ go, onOpen: detail.open });
const map = makeMapPanel({ getState, go, onSearch: searchWith, onView: keepView });
const toolbar = makeToolbar({
  go,
  onFilters: openDrawer,
  onOther: otherImages,
  mapSwitch: map.toggle,
  density: density.element,
});
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
  const start = kindOf(state) === null && !hasFilter(state) && state.offset === 0;
  welcome.show(start && archive.images > 0);
  collectionHead.show(state, archive);
  collections.show();
  query.show(state, null);
  filters.show(state);
  problem.hide();
  recount();
  if (work.show(state)) {
    if (firstDetail !== null) detail.open(firstDetail);
    firstDetail = null;
    return;
  }
  const timer = setTimeout(() => {
    if (fresh) toolbar.bare(state, "Searching…");
    grid.loading(state.limit, fresh);
  }, LOADING_DELAY);
  try {
    const answer = await ask(asked, { signal, onBusy: showBusy });
    if (signal.aborted) return;
    show(asked, answer);
    if (scroll !== null) scrollTo({ top: scroll });
    if (firstDetail !== null) detail.open(firstDetail);
    firstDetail = null;
  } catch (error) {
    if (error.name === "AbortError") return;
    fail(error, () => refresh({ fresh }));
  } finally {
    clearTimeout(timer);
  }
}

/** The images of a state: hits, a random sample, or a page of the list. */
async function ask(state, options) {
  if (isRandom(state)) return api.sample(state, options);
  if (kindOf(state) === null) return api.images(state, options);
  if (kindOf(state) !== "labels") return api.search(state, options);
  const carrying = { ...readState(""), all: state.label };
  const [answer, { images }] = await Promise.all([
    api.search(state, options),
    api.labels(carrying, options),
  ]);
  answer.query.carried = { images, of: archive.images };
  return answer;
}

/** Ids of the images after the first `offset` ones of the search; none where it has no order. */
async function nextImages(offset) {
  if (isRandom(state)) return [];
  const { hits } = await ask({ ...state, offset: state.offset + offset }, { onBusy: showBusy });
  return hits.map(({ id }) => id);
}

/** Shows labels that were given: the list of labels, and the images. */
async function labelled() {
  try {
    archive = await api.archive({ onBusy: showBusy });
  } catch (error) {
    fail(error, labelled);
    return;
  }
  buildLabels();
  reload();
}

/** Asks again for everything that is shown, after the archive or a collection has changed. */
function reload() {
  countedFilter = null;
  refresh({ fresh: false });
}

function show(asked, answer) {
  const found = answer.query ?? { images: [], labels: [], unknown: [] };
  imageAtPoint = found.kind === "place" ? found.images[0] : null;
  hideBusy();
  query.show(asked, found);
  toolbar.show(asked, answer, archive);
  detail.setHits(answer.hits, { query: found, offset: asked.offset });
  grid.show(answer.hits, { query: found, offset: asked.offset, pageLabels: archive.page_labels });
  map.show(asks(asked), state, answer.hits, found.images);
  refreshMarks();
  if (answer.hits.length) problem.hide();
  else problem.nothing(asked, archive);
  announce(`${describeQuery(asked)}: ${places(asked, answer)}`);
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

/** How many images pass the filters; null while they are counted. */
function knownPassing() {
  return countedFilter === filterQuery(state).toString() ? passing : null;
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
    passing = found.images;
    filters.setCounts(found);
    selectionBar.show();
  } catch (error) {
    // The search has the same filter and shows the error; old counts do no harm meanwhile.
    if (error.name !== "AbortError" && ![401, 404].includes(error.status)) console.warn(error.message);
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

/** Everything that shows the labels of the archive. */
function buildLabels() {
  filters.build(archive);
  byId("filters").prepend(collections.element);
  labelField.build(archive);
  welcome.build(archive);
  work.build(archive);
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
  passing = archive.images;
  collections.build(archive);
  buildLabels();
  map.build(archive);
  tray.follow();
  refresh({ fresh: true });
}

drawIcons();
makeThemeSwitch();
if (firstDetail !== null) beginWithDetail(firstDetail);
else leaveDialog(); // the page was loaded again while images were labelled
listen({
  grid,
  tray,
  selection,
  labelField,
  onOpen: detail.open,
  onPage: toolbar.page,
  onMap: map.visit,
  onCollect: collections.addSelected,
  onDense: density.toggle,
  onLabel: work.label,
});
// The page ends above what is docked at its lower edge.
new ResizeObserver(([{ target }]) =>
  document.documentElement.style.setProperty("--dock", `${target.offsetHeight}px`),
).observe(byId("dock"));
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
  if (!isLabelling(event.state)) work.closeLabelling();
  const next = readState(location.search);
  if (address(next) !== address(state)) {
    const fresh = asks(next) !== asks(state);
    state = next;
    tray.follow();
    selection.follow();
    if (archive) refresh({ fresh, scroll: event.state?.scroll ?? 0 });
  }
  if (isDetail(event.state)) detail.open(event.state.detail);
  if (isLabelling(event.state)) work.label();
});
begin();
