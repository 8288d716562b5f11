// An open image is an entry of the browser's history, so that Back closes it and does not leave the search.

/** Functions that wait while the history goes back, which is asynchronous; null otherwise. */
let waiting = null;

/** Whether an entry is that of an open image. */
export const isDetail = (entry) => entry?.detail !== undefined;

/** Calls a function as soon as the history does not move. */
export function whenHistoryReady(act) {
  if (waiting) waiting.push(act);
  else act();
}

export function enterDetail(id) {
  whenHistoryReady(() => {
    if (isDetail(history.state)) return;
    history.replaceState({ scroll: scrollY }, "");
    history.pushState({ detail: id }, "");
  });
}

export function leaveDetail() {
  whenHistoryReady(() => {
    if (!isDetail(history.state)) return;
    waiting = [];
    history.back();
  });
}

/** @returns {boolean} whether it was leaveDetail that moved the history */
export function finishHistoryStep() {
  if (!waiting) return false;
  const acts = waiting;
  waiting = null;
  for (const act of acts) whenHistoryReady(act);
  return true;
}
