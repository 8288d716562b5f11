// Images from outside: chosen, dropped anywhere, or pasted. One is a search, several are examples of one
// search.

import * as api from "./api.js";
import { byId } from "./dom.js";
import { busyFor, notice, settleNotices } from "./notices.js";
import { remember, vectorRef } from "./pictures.js";
import { bytes, counted } from "./words.js";

const MOST_AT_ONCE = 10;
const REFUSED = [413, 415, 422]; // the same image would be refused again

/**
 * @param {{getArchive: Function, onVector: (vector: string) => void, onVectors: (refs: string[]) => void,
 *   onWait: (words: string) => () => void, onToken: Function}} acts
 */
export function makeUpload({ getArchive, onVector, onVectors, onWait, onToken }) {
  const input = /** @type {HTMLInputElement} */ (byId("file"));
  const curtain = byId("drop");
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

  // dragenter and dragleave come for every element on the way; the curtain is up while more were entered than left.
  let depth = 0;
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  const lower = () => {
    depth = 0;
    curtain.hidden = true;
  };
  document.addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth += 1;
    curtain.hidden = false;
  });
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  document.addEventListener("dragleave", (event) => {
    if (carriesFiles(event) && --depth <= 0) lower();
  });
  document.addEventListener("drop", (event) => {
    lower();
    if (!carriesFiles(event)) return;
    event.preventDefault();
    search([...event.dataTransfer.files]);
  });

  // Not a name alone at the beginning of a sentence: its first letter would be shown as a capital.
  const titled = (file) => (file.name ? `The file ${file.name}` : "The image");

  /** What speaks against sending these files, before a byte of them has travelled. */
  function refusal(files) {
    const limit = getArchive()?.max_upload_bytes ?? Infinity;
    const large = files.find((file) => file.size > limit);
    if (large)
      return (
        `${titled(large)} has ${bytes(large.size)}, and this service takes up to ${bytes(limit)}. ` +
        "Choose a smaller version of it."
      );
    const empty = files.find((file) => file.size === 0);
    if (empty) return `${titled(empty)} is empty or a folder. Choose an image file.`;
    return files.length > MOST_AT_ONCE
      ? `${counted(files.length, "image")} are too many for one search. Choose up to ${MOST_AT_ONCE}.`
      : null;
  }

  async function search(files) {
    if (!files.length) return;
    settleNotices();
    const problem = refusal(files);
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
      const leftOut = [];
      for (const file of files) {
        try {
          const { vector, thumbnail } = await api.embed(file, { signal, onBusy: busyFor });
          remember(vector, { thumbnail, name: file.name || "your image" });
          vectors.push(vector);
        } catch (error) {
          if (files.length === 1 || !REFUSED.includes(error.status)) throw error;
          leftOut.push(`${titled(file)} was left out: ${error.message.replace(/^the upload:? /, "")}`);
        }
      }
      if (vectors.length === 1) onVector(vectors[0]);
      else if (vectors.length) onVectors([...new Set(vectors)].map(vectorRef));
      // After the search has begun, which takes older messages away.
      for (const text of leftOut) notice(text, { problem: true, action: "Choose another", act: choose });
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

  return { choose, abandon: () => newest.next() };
}
