// Export of the hits: CSV, and where the archive has bounding boxes GeoJSON and GeoParquet.

import * as api from "./api.js";
import { el, icon } from "./dom.js";
import { makeMenu } from "./menu.js";
import { showBusy, notice } from "./notices.js";
import { MAX_PAGE, searchQuery } from "./state.js";
import { count } from "./format.js";

export function exportMenu(state, answer, archive) {
  const most = Math.min(MAX_PAGE, archive.max_results ?? MAX_PAGE);
  const size = answer.hits.length;
  const shown = [size === 1 ? "this hit" : `these ${count(size)} hits`, state];
  const first = [`the first ${count(most)} hits`, { ...state, offset: 0, limit: most }];
  const whole = answer.more || state.offset > 0;
  const ranges = whole && state.limit < most ? [shown, first] : [shown];
  const formats = archive.has_bbox
    ? [
        ["csv", "CSV"],
        ["geojson", "GeoJSON"],
        ["geoparquet", "GeoParquet"],
      ]
    : [["csv", "CSV"]];
  return downloadMenu(
    formats.flatMap(([format, name]) =>
      ranges.map(([words, of]) => [`${name}, ${words}`, searchExport(of, format)]),
    ),
  );
}

function searchExport(state, format) {
  const query = searchQuery(state);
  query.set("format", format);
  return `api/search?${query}`;
}

/** A menu of files. @param {[string, string][]} files names and addresses */
export function downloadMenu(files) {
  return makeMenu(
    el("summary", { class: "button" }, icon("download"), "Export"),
    el("ul", {}, ...files.map(([words, address]) => el("li", {}, entry(words, address)))),
  );
}

/** A link, so that its URL can be copied; a click uses a script, so that an error can be shown. */
function entry(words, address) {
  const click = (event) => {
    event.preventDefault();
    download(address);
  };
  return el("a", { href: address, on: { click } }, words);
}

export async function download(address) {
  try {
    const { content, name } = await api.fetchExport(address, { onBusy: showBusy });
    const url = URL.createObjectURL(content);
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    notice(error.message, { problem: true });
  }
}
