// The order of the images. With a query it is the similarity; any other order leaves the query.

import { el } from "./dom.js";
import { kindOf, withChanges, withQuery } from "./state.js";

const ORDERS = [
  ["id asc", "Name, A to Z"],
  ["id desc", "Name, Z to A"],
  ["date desc", "Newest first"],
  ["date asc", "Oldest first"],
  ["random", "Random"],
];

const valueOf = ({ sort, order }) => (sort === "random" ? sort : `${sort} ${order}`);

/** The menu of orders. @param {import("./state.js").State} state */
export function sortMenu(state, archive, go) {
  const asked = kindOf(state) !== null;
  const options = ORDERS.filter(([value]) => archive.dates || !value.startsWith("date")).map(([value, words]) =>
    el("option", { value, selected: !asked && value === valueOf(state) }, words),
  );
  const change = (event) => {
    const [sort, order = "asc"] = event.target.value.split(" ");
    go(withChanges(asked ? withQuery(state, {}) : state, { sort, order, seed: 0 }));
  };
  return el(
    "select",
    { class: "field sort", id: "sort", "aria-label": "Order of the images", on: { change } },
    asked && el("option", { value: "similarity", selected: true }, "Most similar"),
    ...(asked ? [el("optgroup", { label: "Without the query" }, ...options)] : options),
  );
}
