// The search in the URL of the page: the same names and values as GET /api/search, so that it can be shared.

/**
 * @typedef {object} State
 * @property {string|null} id
 * @property {string|null} vector
 * @property {string[]} like references: "id:..." or "vector:..."
 * @property {string[]} unlike
 * @property {string[]} label
 * @property {string|null} at "LON,LAT": the image that shows this point is the query
 * @property {string[]} any
 * @property {string[]} all
 * @property {string[]} none
 * @property {boolean} none_unknown_ok whether labels of none may also be unknown
 * @property {string|null} collection only its members pass
 * @property {string|null} bbox "W,S,E,N"
 * @property {string|null} within polygons in GeoJSON
 * @property {string|null} from a date, "2020-01-01"
 * @property {string|null} to
 * @property {number|null} min_similarity
 * @property {number} offset
 * @property {number} limit
 * @property {"id"|"date"|"random"} sort of the images that are shown without a query
 * @property {"asc"|"desc"} order
 * @property {number} seed of a random order
 * @property {"similarity"|"suggestions"|null} view what is shown in place of the images
 * @property {string[]} colour labels that the map of similarity colours; none: the most common ones
 * @property {string|null} suggest the label that images are suggested for
 * @property {boolean} confident whether the most probable suggestions come first
 * @property {string|null} map what the map shows, "LON,LAT,ZOOM"; null: it follows the images
 */

export const FILTERS = ["any", "all", "none"];
/** Filters by place and time. */
export const PLACE_FILTERS = ["bbox", "within", "from", "to"];
const QUERY_PARAMETERS = ["id", "vector", "like", "unlike", "label", "at"];
const SORTS = ["id", "date", "random"];
const PAGE = 60;
const VIEWS = ["similarity", "suggestions"];
export const MAX_PAGE = 200;

/** @returns {State} */
export function readState(search) {
  const given = new URLSearchParams(search);
  const several = (name) => [...new Set(given.getAll(name))].filter(Boolean);
  return {
    id: given.get("id"),
    vector: given.get("vector"),
    like: several("like"),
    unlike: several("unlike"),
    label: several("label"),
    at: given.get("at") || null,
    any: several("any"),
    all: several("all"),
    none: several("none"),
    none_unknown_ok: given.get("none_unknown_ok") === "true",
    collection: given.get("collection") || null,
    bbox: given.get("bbox") || null,
    within: given.get("within") || null,
    from: given.get("from") || null,
    to: given.get("to") || null,
    min_similarity: number(given.get("min_similarity")),
    offset: Math.max(0, Math.trunc(number(given.get("offset")) ?? 0)),
    limit: Math.min(MAX_PAGE, Math.max(1, Math.trunc(number(given.get("limit")) ?? PAGE))),
    sort: SORTS.includes(given.get("sort")) ? given.get("sort") : given.has("seed") ? "random" : "id",
    order: given.get("order") === "desc" ? "desc" : "asc",
    seed: Math.max(0, Math.trunc(number(given.get("seed")) ?? 0)),
    view: VIEWS.includes(given.get("view")) ? given.get("view") : null,
    colour: several("colour"),
    suggest: given.get("suggest") || null,
    confident: given.get("confident") === "true",
    map: given.get("map") || null,
  };
}

function number(text) {
  const read = text === null || text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(read) ? read : null;
}

/** The query string of the page, without default values. */
export function writeState(state) {
  const query = queryParameters(state);
  for (const [name, value] of filterQuery(state)) query.append(name, value);
  if (state.min_similarity !== null && kindOf(state))
    query.append("min_similarity", String(state.min_similarity));
  if (!kindOf(state)) for (const [name, value] of orderParameters(state)) query.append(name, value);
  if (state.offset && !isRandom(state)) query.append("offset", String(state.offset));
  if (state.limit !== PAGE) query.append("limit", String(state.limit));
  if (state.map !== null) query.append("map", state.map);
  for (const [name, value] of viewParameters(state)) query.append(name, value);
  return query;
}

/** The order of the images that are shown without a query, without default values. */
function orderParameters({ sort, order, seed }) {
  if (sort === "random") return [["sort", sort], ...(seed ? [["seed", String(seed)]] : [])];
  return [...(sort === "id" ? [] : [["sort", sort]]), ...(order === "asc" ? [] : [["order", order]])];
}

/** Whether a random sample is shown. */
export const isRandom = (state) => kindOf(state) === null && state.sort === "random";

/** What is shown in place of the images, without default values. */
function viewParameters({ view, colour, suggest, confident }) {
  if (view === "similarity") return [["view", view], ...colour.map((label) => ["colour", label])];
  if (view !== "suggestions") return [];
  return [
    ["view", view],
    ...(suggest === null ? [] : [["suggest", suggest]]),
    ...(confident ? [["confident", "true"]] : []),
  ];
}

/** The parameters of GET /api/search. */
export function searchQuery(state) {
  const query = writeState({ ...state, map: null, view: null });
  query.set("limit", String(state.limit));
  return query;
}

/** The parameters of GET /api/sample. */
export function sampleQuery(state) {
  const query = filterQuery(state);
  query.set("seed", String(state.seed));
  query.set("limit", String(state.limit));
  return query;
}

/** The parameters of GET /api/images. */
export function listQuery(state) {
  const query = filterQuery(state);
  for (const name of ["sort", "order", "offset", "limit"]) query.set(name, String(state[name]));
  return query;
}

/** The parameters of GET /api/labels. */
export function filterQuery(state) {
  const query = new URLSearchParams();
  for (const name of FILTERS) for (const label of state[name]) query.append(name, label);
  if (state.none_unknown_ok && state.none.length) query.append("none_unknown_ok", "true");
  if (state.collection !== null) query.append("collection", state.collection);
  for (const name of PLACE_FILTERS) if (state[name] !== null) query.append(name, state[name]);
  return query;
}

/** The filter as the service takes it in the body of a request: names and values of filterQuery. */
export function filterObject(state) {
  const found = {};
  for (const [name, value] of filterQuery(state)) {
    if (FILTERS.includes(name)) (found[name] ??= []).push(value);
    else found[name] = name === "none_unknown_ok" ? true : value;
  }
  return found;
}

function queryParameters(state) {
  const query = new URLSearchParams();
  for (const name of QUERY_PARAMETERS) {
    for (const value of [state[name] ?? []].flat()) query.append(name, value);
  }
  return query;
}

/** @returns {"id"|"vector"|"examples"|"labels"|"place"|null} the kind of query; null without one */
export function kindOf(state) {
  if (state.id !== null) return "id";
  if (state.vector !== null) return "vector";
  if (state.like.length || state.unlike.length) return "examples";
  if (state.label.length) return "labels";
  return state.at !== null ? "place" : null;
}

/** Another query, at its first page; filters and threshold stay, and the map follows the images again. */
export function withQuery(state, query) {
  const nothing = { id: null, vector: null, like: [], unlike: [], label: [], at: null, map: null, view: null };
  return { ...state, ...nothing, offset: 0, ...query };
}

/** The same query with other filters, at its first page. */
export const withChanges = (state, changes) => ({ ...state, offset: 0, ...changes });

/** The state with a label in one of the filters, or in none of them; a label can be in one at a time. */
export function withLabelFilter(state, label, where) {
  const lists = FILTERS.map((name) => {
    const others = state[name].filter((each) => each !== label);
    return [name, name === where ? [...others, label] : others];
  });
  return withChanges(state, Object.fromEntries(lists));
}

/** @returns {"any"|"all"|"none"|null} */
export const filterOf = (state, label) => FILTERS.find((name) => state[name].includes(label)) ?? null;

export const hasLabelFilter = (state) => FILTERS.some((name) => state[name].length > 0);
export const hasPlaceFilter = (state) => PLACE_FILTERS.some((name) => state[name] !== null);
export const hasFilter = (state) =>
  hasLabelFilter(state) || hasPlaceFilter(state) || state.collection !== null;

/** Which images pass, in words after their number: nothing where all do. */
export function whatPasses(state, number) {
  if (hasLabelFilter(state) || hasPlaceFilter(state))
    return number === 1 ? " that passes the filters" : " that pass the filters";
  return state.collection === null ? "" : " of the collection";
}

export const withoutLabelFilter = (state) =>
  withChanges(state, { any: [], all: [], none: [], none_unknown_ok: false });
export const withoutPlaceFilter = (state) =>
  withChanges(state, { bbox: null, within: null, from: null, to: null });

/** The examples that a search starts from when the first hit is marked: the query itself is one of them. */
export function examplesOf(state) {
  if (state.id !== null) return { like: [`id:${state.id}`], unlike: [] };
  if (state.vector !== null) return { like: [`vector:${state.vector}`], unlike: [] };
  return { like: [...state.like], unlike: [...state.unlike] };
}
