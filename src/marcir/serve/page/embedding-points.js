// The points of the map of similarity: loaded as numbers, found by place, and turned into ids on demand.

import * as api from "./api.js";

const CELLS = 256; // per axis of the grid in which points are found
const ROWS_AT_ONCE = 1000; // of /api/map/ids

/** @param {{filters: URLSearchParams, labels: string[]}} of */
export async function loadPoints({ filters, labels }, options) {
  const query = new URLSearchParams(filters);
  for (const label of labels) query.append("label", label);
  const response = await api.request(`api/map?${query}`, options);
  const size = Number(response.headers.get("X-Marcir-Points"));
  const content = await response.arrayBuffer();
  return new Points(content, {
    size,
    total: Number(response.headers.get("X-Marcir-Total")),
    version: response.headers.get("X-Marcir-Version") ?? "",
    labels,
  });
}

export class Points {
  #ids = new Map();
  #starts = new Uint32Array(CELLS * CELLS + 1);
  #sorted;

  constructor(content, { size, total, version, labels }) {
    Object.assign(this, { size, total, version });
    this.x = new Float32Array(content, 0, size);
    this.y = new Float32Array(content, 4 * size, size);
    this.rows = new Uint32Array(content, 8 * size, size);
    this.bits = new Uint32Array(content, 12 * size, size);
    /** How many points have each of the chosen labels. */
    this.counts = labels.map((_, at) => this.bits.reduce((sum, bits) => sum + ((bits >>> at) & 1), 0));
    this.groups = this.#group();
    this.#sorted = this.#sort();
  }

  /** The rarest chosen label that each point has, counted from 1; 0: none. Common ones would hide the rest. */
  #group() {
    const groups = new Uint8Array(this.size);
    const commonFirst = [...this.counts.keys()].sort((a, b) => this.counts[b] - this.counts[a]);
    for (const label of commonFirst)
      for (let at = 0; at < this.size; at += 1) if ((this.bits[at] >>> label) & 1) groups[at] = label + 1;
    return groups;
  }

  /** Points in the order of the cells that they lie in: a counting sort. */
  #sort() {
    const cells = new Uint32Array(this.size);
    for (let at = 0; at < this.size; at += 1) {
      cells[at] = cellOf(this.y[at]) * CELLS + cellOf(this.x[at]);
      this.#starts[cells[at] + 1] += 1;
    }
    for (let cell = 0; cell < CELLS * CELLS; cell += 1) this.#starts[cell + 1] += this.#starts[cell];
    const next = this.#starts.slice();
    const sorted = new Uint32Array(this.size);
    for (let at = 0; at < this.size; at += 1) sorted[next[cells[at]]++] = at;
    return sorted;
  }

  /** The point nearest to a place, within a distance; -1 where there is none. */
  nearest(x, y, distance) {
    let found = -1;
    let best = distance * distance;
    this.#inBox(x - distance, y - distance, x + distance, y + distance, (at) => {
      const far = (this.x[at] - x) ** 2 + (this.y[at] - y) ** 2;
      if (far <= best) [best, found] = [far, at];
    });
    return found;
  }

  /** The points inside a polygon, given as [x, y] pairs; where it crosses itself, even-odd. */
  inside(polygon) {
    const xs = polygon.map(([x]) => x);
    const ys = polygon.map(([, y]) => y);
    const found = [];
    this.#inBox(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (at) => {
      let within = false;
      for (let i = 0, j = xs.length - 1; i < xs.length; j = i++)
        if (
          ys[i] > this.y[at] !== ys[j] > this.y[at] &&
          this.x[at] < ((xs[j] - xs[i]) * (this.y[at] - ys[i])) / (ys[j] - ys[i]) + xs[i]
        )
          within = !within;
      if (within) found.push(at);
    });
    return found;
  }

  #inBox(west, south, east, north, act) {
    for (let row = cellOf(south); row <= cellOf(north); row += 1) {
      const from = this.#starts[row * CELLS + cellOf(west)];
      const to = this.#starts[row * CELLS + cellOf(east) + 1];
      for (let place = from; place < to; place += 1) act(this.#sorted[place]);
    }
  }

  /** The ids of some points; an error of status 409 where the archive has changed since. */
  async ids(points, options) {
    const rows = Array.from(points, (at) => this.rows[at]);
    const missing = rows.filter((row) => !this.#ids.has(row));
    for (let from = 0; from < missing.length; from += ROWS_AT_ONCE)
      await this.#ask(missing.slice(from, from + ROWS_AT_ONCE), options);
    return rows.map((row) => this.#ids.get(row)).filter((id) => id !== undefined);
  }

  async #ask(rows, options) {
    const query = new URLSearchParams({ version: this.version });
    for (const row of rows) query.append("row", String(row));
    const { ids } = await api.json(`api/map/ids?${query}`, options);
    rows.forEach((row, at) => this.#ids.set(row, ids[at]));
  }
}

/** The cell of a coordinate in -1..1; what lies outside is in the first or the last. */
const cellOf = (value) => Math.max(0, Math.min(CELLS - 1, Math.floor(((value + 1) / 2) * CELLS)));
