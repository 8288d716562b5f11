// Which images are selected: a set of ids, or everything that passes the filters. It is kept over searches and
// pages until it is cleared; a selection that is the filter itself ends when the filters change.

import { filterObject, filterQuery } from "./state.js";

/**
 * @param {{getState: () => import("./state.js").State, getShown: () => string[]}} of `getShown`: the ids of the
 *   images on the page, in their order
 */
export function makeSelection({ getState, getShown }) {
  const chosen = new Set();
  /** @type {{key: string, filter: object, total: number}|null} the filter that is selected as a whole */
  let whole = null;
  /** @type {string|null} where a range begins */
  let anchor = null;
  /** What was selected when the range began: a range that becomes shorter gives back what it had taken. */
  let before = new Set();
  const listeners = [];

  const keyOf = (state) => filterQuery(state).toString();
  const has = (id) => (whole ? getShown().includes(id) : chosen.has(id));

  function changed() {
    for (const listener of listeners) listener();
  }

  /** From the whole filter to single images: those on this page, of which one can then be taken out. */
  function single() {
    if (!whole) return;
    whole = null;
    for (const id of getShown()) chosen.add(id);
  }

  function set(ids, on) {
    single();
    for (const id of ids) {
      if (on) chosen.add(id);
      else chosen.delete(id);
    }
    changed();
  }

  function startRange(id) {
    anchor = id;
    before = new Set(chosen);
  }

  return {
    has,
    /** The selected ids in the order they were selected; none where the selection is a filter. */
    ids: () => [...chosen],
    /** How many images are selected. */
    size: () => (whole ? whole.total : chosen.size),
    isEmpty: () => !whole && chosen.size === 0,
    isFilter: () => whole !== null,
    /** @returns {{ids: string[]}|{filter: object}|null} what the service takes; null where nothing is selected */
    asSelection() {
      if (whole) return { filter: whole.filter };
      return chosen.size ? { ids: [...chosen] } : null;
    },
    /** @param {() => void} listener called after every change */
    onChange: (listener) => listeners.push(listener),

    toggle(id) {
      set([id], !has(id));
      startRange(id);
    },

    /**
     * Selects what is on the page between the image that was selected last and this one.
     * @param {string} id
     * @param {string} [from] where the range begins if none has begun on this page
     */
    extend(id, from = id) {
      const shown = getShown();
      single();
      if (!shown.includes(anchor) || !chosen.has(anchor)) startRange(from);
      const ends = [shown.indexOf(anchor), shown.indexOf(id)].sort((a, b) => a - b);
      chosen.clear();
      for (const each of before) chosen.add(each);
      set(shown.slice(ends[0], ends[1] + 1), true);
    },

    /** @param {Iterable<string>} ids */
    add: (ids) => set(ids, true),

    /** Selects everything that passes the filters. @param {number} total how many images that are */
    addAllThatPass(total) {
      chosen.clear();
      anchor = null;
      whole = { key: keyOf(getState()), filter: filterObject(getState()), total };
      changed();
    },

    clear() {
      if (!whole && !chosen.size) return;
      chosen.clear();
      whole = null;
      anchor = null;
      changed();
    },

    /** After the state of the page has changed. */
    follow() {
      if (whole && whole.key !== keyOf(getState())) whole = null;
      changed();
    },
  };
}
