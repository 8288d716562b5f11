// An open image is an entry of the browser's history, so that Back closes it and does not leave the search.

/** What waits while the history goes back, which takes a moment; null while it rests. */
let waiting = null;

/** Whether an entry is that of an open image. */
export const isDetail = (entry) => entry?.detail !== undefined;

/** Does something as soon as the history rests. */
export function atRest(act) {
  if (waiting) waiting.push(act);
  else act();
}

export function enterDetail(id) {
  atRest(() => {
    if (isDetail(history.state)) return;
    history.replaceState({ scroll: scrollY }, "");
    history.pushState({ detail: id }, "");
  });
}

export function leaveDetail() {
  atRest(() => {
    if (!isDetail(history.state)) return;
    waiting = [];
    history.back();
  });
}

/** @returns {boolean} whether it was leaveDetail that moved the history */
export function cameToRest() {
  if (!waiting) return false;
  const acts = waiting;
  waiting = null;
  for (const act of acts) atRest(act);
  return true;
}
