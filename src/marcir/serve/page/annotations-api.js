// Requests about labels that people give, suggestions, and training with them.

import { json, post } from "./api.js";
import { filterQuery } from "./state.js";

/** @typedef {{label: string, state: "present"|"absent"|"unknown"|"cleared", ids?: string[], filter?: object}} Change */

/** @param {Change[]} changes one step of undo */
export const setLabels = (changes) => json("api/labels", post({ changes }));
/** @param {number} edit what `setLabels` returned */
export const undoLabels = (edit) => json("api/labels/undo", post({ edit }));
export const history = (id, options) => json(`api/labels/history?${new URLSearchParams({ id })}`, options);
export const retrain = (options) => json("api/retrain", options);
export const LABELS_FILE = "api/labels/export";

/** @param {{order?: string, limit?: number, min_probability?: number}} about */
export function suggestions(state, about, options) {
  return json(`api/suggestions?${suggestionQuery(state, about)}`, options);
}

export const suggestionIds = (state, min_probability, options) =>
  json(`api/suggestions/ids?${suggestionQuery(state, { min_probability })}`, options);

export async function score(label, options) {
  const { scores } = await json(`api/suggestions/scores?${new URLSearchParams({ label })}`, options);
  return scores[0];
}

function suggestionQuery(state, about) {
  const query = filterQuery(state);
  query.set("label", state.suggest);
  for (const [name, value] of Object.entries(about)) query.set(name, String(value));
  return query;
}
