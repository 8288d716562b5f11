// An open image is an entry of the browser's history with an address of its own, so that it can be shared, and
// Back closes it and does not leave the search. The dialog for labelling is an entry, too, at the same address.

/** Functions that wait while the history goes back, which is asynchronous; null otherwise. */
let waiting = null;

/** Whether an entry is that of an open image. */
export const isDetail = (entry) => entry?.detail !== undefined;

/** Whether an entry is that of the dialog for labelling. */
export const isLabelling = (entry) => entry?.labelling === true;

/** Whether an entry is that of a dialog, so that the one of the search is below it. */
export const isDialog = (entry) => isDetail(entry) || isLabelling(entry);

/** Calls a function as soon as the history does not move. */
export function whenHistoryReady(act) {
  if (waiting) waiting.push(act);
  else act();
}

/** @param {string} address of the page with this image open */
export function enterDetail(id, address) {
  whenHistoryReady(() => {
    if (isDetail(history.state)) {
      history.replaceState({ ...history.state, detail: id }, "", address); // from image to image is no step
      return;
    }
    history.replaceState({ scroll: scrollY }, "");
    history.pushState({ detail: id }, "", address);
  });
}

/** For the dialog for labelling; it is in its entry already where Forward has opened it. */
export function enterLabelling() {
  whenHistoryReady(() => {
    if (isLabelling(history.state)) return;
    history.replaceState({ scroll: scrollY }, "");
    history.pushState({ labelling: true }, "");
  });
}

/** After the page was loaded at the address of an open image: no entry of this search may be below it. */
export function beginWithDetail(id) {
  if (!isDetail(history.state)) history.replaceState({ detail: id, alone: true }, "");
}

/** @param {string} [address] of the page without an open image, where one was open */
export function leaveDialog(address) {
  whenHistoryReady(() => {
    if (!isDialog(history.state)) return;
    if (history.state.alone) {
      history.replaceState({}, "", address);
      return;
    }
    waiting = [];
    history.back();
  });
}

/** @returns {boolean} whether it was leaveDialog that moved the history */
export function finishHistoryStep() {
  if (!waiting) return false;
  const acts = waiting;
  waiting = null;
  for (const act of acts) whenHistoryReady(act);
  return true;
}
