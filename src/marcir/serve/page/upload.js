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

  // Not the name alone at the beginning of a sentence: its first letter would become a capital.
  const nameOf = (file) => (file.name ? `The file ${file.name}` : "The image");

  /** Why these files cannot be sent; null where they can. */
  function problemOf(files) {
    const limit = getArchive()?.max_upload_bytes ?? Infinity;
    const large = files.find((file) => file.size > limit);
    if (large)
      return (
        `${nameOf(large)} has ${bytes(large.size)}, and this service takes up to ${bytes(limit)}. ` +
        "Choose a smaller version of it."
      );
    const empty = files.find((file) => file.size === 0);
    if (empty) return `${nameOf(empty)} is empty or a folder. Choose an image file.`;
    return files.length > MAX_FILES
      ? `${counted(files.length, "image")} are too many for one search. Choose up to ${MAX_FILES}.`
      : null;
  }

  async function search(files) {
    if (!files.length) return;
    clearProblemNotices();
    const problem = problemOf(files);
    if (problem) {
      notice(problem, { problem: true });
      return;
    }
    const signal = newest.next();
    const done = onWait(
      files.length === 1 ? "Looking at your image…" : `Looking at your ${files.length} images…`,
    );
    try {
      const vectors = [];
      const skipped = [];
      for (const file of files) {
        try {
          const { vector, thumbnail } = await api.embed(file, { signal, onBusy: showBusy });
          remember(vector, { thumbnail, name: file.name || "your image" });
          vectors.push(vector);
        } catch (error) {
          if (files.length === 1 || !REFUSED.includes(error.status)) throw error;
          skipped.push(`${nameOf(file)} was left out: ${error.message.replace(/^the upload:? /, "")}`);
        }
      }
      if (vectors.length === 1) onVector(vectors[0]);
      else if (vectors.length) onVectors([...new Set(vectors)].map(vectorRef));
      // After the start of the search, which removes older messages.
      for (const text of skipped) notice(text, { problem: true, action: "Choose another", act: choose });
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 401) onToken(() => search(files));
      else if (REFUSED.includes(error.status))
        notice(error.message, { problem: true, action: "Choose another", act: choose });
      else notice(error.message, { problem: true, action: "Try again", act: () => search(files) });
    } finally {
      done();
    }
  }

  return { choose, cancel: () => newest.next() };
}
