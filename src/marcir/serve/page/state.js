// The search in the URL of the page: the same names and values as GET /api/search, so that it can be shared.

/**
 * @typedef {object} State
 * @property {string|null} id
 * @property {string|null} vector
 * @property {string[]} like references: "id:..." or "vector:..."
 * @property {string[]} unlike
 * @property {string[]} label
 * @property {string[]} any
 * @property {string[]} all
 * @property {string[]} none
 * @property {boolean} none_unknown_ok whether labels of none may also be unknown
 * @property {number|null} min_similarity
 * @property {number} offset
 * @property {number} limit
 * @property {number} seed of the sample that is shown without a query
 */

export const FILTERS = ["any", "all", "none"];
const QUERY_PARAMETERS = ["id", "vector", "like", "unlike", "label"];
export const PAGE = 24;
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
    any: several("any"),
    all: several("all"),
    none: several("none"),
    none_unknown_ok: given.get("none_unknown_ok") === "true",
    min_similarity: number(given.get("min_similarity")),
    offset: Math.max(0, Math.trunc(number(given.get("offset")) ?? 0)),
    limit: Math.min(MAX_PAGE, Math.max(1, Math.trunc(number(given.get("limit")) ?? PAGE))),
    seed: Math.max(0, Math.trunc(number(given.get("seed")) ?? 0)),
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
  if (state.offset && kindOf(state)) query.append("offset", String(state.offset));
  if (state.limit !== PAGE) query.append("limit", String(state.limit));
  if (state.seed && !kindOf(state)) query.append("seed", String(state.seed));
  return query;
}

/** The parameters of GET /api/search. */
export function searchQuery(state) {
  const query = writeState(state);
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

/** The parameters of GET /api/labels. */
export function filterQuery(state) {
  const query = new URLSearchParams();
  for (const name of FILTERS) for (const label of state[name]) query.append(name, label);
  if (state.none_unknown_ok && state.none.length) query.append("none_unknown_ok", "true");
  return query;
}

function queryParameters(state) {
  const query = new URLSearchParams();
  for (const name of QUERY_PARAMETERS) {
    for (const value of [state[name] ?? []].flat()) query.append(name, value);
  }
  return query;
}

/** @returns {"id"|"vector"|"examples"|"labels"|null} the kind of query; null without one */
export function kindOf(state) {
  if (state.id !== null) return "id";
  if (state.vector !== null) return "vector";
  if (state.like.length || state.unlike.length) return "examples";
  return state.label.length ? "labels" : null;
}

/** Another query, at its first page; filters and threshold stay. */
export function withQuery(state, query) {
  const nothing = { id: null, vector: null, like: [], unlike: [], label: [] };
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

export const hasFilter = (state) => FILTERS.some((name) => state[name].length > 0);
export const withoutFilter = (state) =>
  withChanges(state, { any: [], all: [], none: [], none_unknown_ok: false });

/** The examples that a search starts from when the first hit is marked: the query itself is one of them. */
export function examplesOf(state) {
  if (state.id !== null) return { like: [`id:${state.id}`], unlike: [] };
  if (state.vector !== null) return { like: [`vector:${state.vector}`], unlike: [] };
  return { like: [...state.like], unlike: [...state.unlike] };
}
