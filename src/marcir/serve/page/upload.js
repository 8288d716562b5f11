// Images of the user: chosen, dropped anywhere, or pasted. One is a search, several are examples of one search.

import * as api from "./api.js";
import { byId } from "./dom.js";
import { showBusy, notice, clearProblemNotices } from "./notices.js";
import { remember, vectorRef } from "./query-images.js";
import { bytes, counted } from "./format.js";

const MAX_FILES = 10;
const REFUSED = [413, 415, 422]; // the same image would be refused again

/**
 * @param {{getArchive: Function, onVector: (vector: string) => void, onVectors: (refs: string[]) => void,
 *   onWait: (words: string) => () => void, onToken: Function}} acts
 */
export function makeUpload({ getArchive, onVector, onVectors, onWait, onToken }) {
  const input = /** @type {HTMLInputElement} */ (byId("file"));
  const overlay = byId("drop");
  const newest = new api.Newest();
  const choose = () => input.click();

  input.addEventListener("change", () => {
    search([...input.files]);
    input.value = ""; // the same file can be chosen again
  });

  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) {
      event.preventDefault();
      search(files);
    } else if (!event.target.closest?.("input")) {
      notice("There is no image on the clipboard. Copy an image, not its address, and paste again.");
    }
  });

  // dragenter and dragleave come for every element below the pointer; the overlay is shown while more were entered
  // than left.
  let depth = 0;
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  const hideOverlay = () => {
    depth = 0;
    overlay.hidden = true;
  };
  document.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth += 1;
    overlay.hidden = false;
  });
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  document.addEventListener("dragleave", (event) => {
    if (carriesFiles(event) && --depth <= 0) hideOverlay();
  });
  document.addEventListener("drop", (event) => {
    hideOverlay();
    if (!carriesFiles(event)) return;
    event.preventDefault();
    search([...event.dataTransfer.files]);
  });

  const nameOf = (file) => (file.name ? `The file ${file.name}` : "The image");

  /** Why a file cannot be sent; null where it can. */
  function problemOf(file) {
    const limit = getArchive()?.max_upload_bytes ?? Infinity;
    if (file.size > limit)
      return (
        `${nameOf(file)} has ${bytes(file.size)}, and this service takes up to ${bytes(limit)}. ` +
        "Choose a smaller version of it."
      );
    return file.size === 0 ? `${nameOf(file)} is empty or a folder. Choose an image file.` : null;
  }

  const report = (text) => notice(text, { problem: true, action: "Choose another", act: choose });

  async function search(given) {
    if (!given.length) return;
    clearProblemNotices();
    const files = given.filter((file) => problemOf(file) === null);
    const skipped = given.map(problemOf).filter((problem) => problem !== null);
    if (files.length > MAX_FILES)
      skipped.push(`${counted(files.length, "image")} are too many for one search. Choose up to ${MAX_FILES}.`);
    if (!files.length || files.length > MAX_FILES) {
      skipped.forEach(report);
      return;
    }
    const signal = newest.next();
    const done = onWait(
      files.length === 1 ? "Looking at your image…" : `Looking at your ${files.length} images…`,
    );
    try {
      const vectors = [];
      for (const file of files) {
        try {
          const { vector, thumbnail } = await api.embed(file, { signal, onBusy: showBusy });
          remember(vector, { thumbnail, name: file.name || "your image" });
          vectors.push(vector);
        } catch (error) {
          if (given.length === 1 || !REFUSED.includes(error.status)) throw error;
          skipped.push(`${nameOf(file)} was left out: ${error.message.replace(/^the upload:? /, "")}`);
        }
      }
      if (vectors.length === 1) onVector(vectors[0]);
      else if (vectors.length) onVectors([...new Set(vectors)].map(vectorRef));
      // After the start of the search, which removes older messages.
      skipped.forEach(report);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 401) onToken(() => search(given));
      else if (REFUSED.includes(error.status)) report(error.message);
      else notice(error.message, { problem: true, action: "Try again", act: () => search(given) });
    } finally {
      done();
    }
  }

  return { choose, cancel: () => newest.next() };
}
