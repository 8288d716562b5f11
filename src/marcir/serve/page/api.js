// Requests to the service. URLs are relative, so that the page also works below a path of a proxy.

import { MAX_PAGE, filterQuery, listQuery, sampleQuery, searchQuery } from "./state.js";

const MAX_RETRIES = 6;

/** An error of the service, or of the connection (status 0). */
class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  /** Whether the same request would be refused again. */
  get isRefusal() {
    return this.status >= 400 && this.status < 500 && this.status !== 408;
  }
}

/** Makes abort signals. Each one aborts the one before, so that no late response overwrites a newer one. */
export class Newest {
  #controller = new AbortController();

  next() {
    this.#controller.abort();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }
}

/** @param {{signal?: AbortSignal, onBusy?: (seconds: number) => void}} [options] */
export const archive = (options) => json("api/archive", options);
export const labels = (state, options) => json(`api/labels?${filterQuery(state)}`, options);
export const sample = (state, options) => json(`api/sample?${sampleQuery(state)}`, options);
export const images = (state, options) => json(`api/images?${listQuery(state)}`, options);
export const search = (state, options) => json(`api/search?${searchQuery(state)}`, options);
export const image = (id, options) => json(`api/image?${new URLSearchParams({ id })}`, options);

/** @param {Blob} picture */
export function embed(picture, options) {
  const type = picture.type.startsWith("image/") ? picture.type : "application/octet-stream";
  return json("api/embed", { ...options, method: "POST", body: picture, headers: { "Content-Type": type } });
}

export const openSession = (token) => request("api/session", post({ token }));

export const collections = (options) => json("api/collections", options);
export const collection = (name, options) =>
  json(`api/collection?${new URLSearchParams({ name, limit: "1" })}`, options);
/** Images of a collection that are no longer in the archive, `MAX_PAGE` at a time. */
export const missingMembers = (name, offset, options) =>
  json(
    `api/collection?${new URLSearchParams({ name, missing: "true", offset: String(offset), limit: String(MAX_PAGE) })}`,
    options,
  );
export const collectionExportUrl = (name, format) =>
  `api/collection/export?${new URLSearchParams({ name, format })}`;
/** @param {{ids: string[]}|{filter: object}} selection */
export const createCollection = (name, selection) => json("api/collections", post({ name, ...selection }));
export const addToCollection = (name, selection) => json("api/collections/add", post({ name, ...selection }));
export const removeFromCollection = (name, selection) =>
  json("api/collections/remove", post({ name, ...selection }));
export const renameCollection = (name, new_name) => json("api/collections/rename", post({ name, new_name }));
export const deleteCollection = (name) => request("api/collections/delete", post({ name }));

/** A request that changes something. */
export const post = (content) => ({
  method: "POST",
  body: JSON.stringify(content),
  headers: { "Content-Type": "application/json" },
});

/** The file of an export and its name. */
export async function fetchExport(address, options) {
  const response = await request(address, options);
  const named = /filename="?([^";]+)"?/.exec(response.headers.get("Content-Disposition") ?? "");
  return { content: await response.blob(), name: named?.[1] ?? "marcir-export" };
}

export const thumbnailUrl = (id) => `api/thumbnail?${new URLSearchParams({ id })}`;
export const originalUrl = (id) => `api/original?${new URLSearchParams({ id })}`;
export const downloadUrl = (id) => `api/original?${new URLSearchParams({ id, download: "true" })}`;

export async function json(address, options) {
  const response = await request(address, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The response is incomplete. Try again.");
  }
}

export async function request(address, { onBusy, ...options } = {}) {
  for (let left = MAX_RETRIES; ; left -= 1) {
    const response = await send(address, options);
    if (response.ok) return response;
    if (response.status !== 503 || left === 0)
      throw new ServiceError(response.status, await errorText(response));
    const seconds = Math.min(60, Math.max(1, Number(response.headers.get("Retry-After")) || 2));
    onBusy?.(seconds);
    await pause(seconds, options.signal);
  }
}

async function send(address, options) {
  try {
    return await fetch(address, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(
      0,
      "The service does not answer. Is marcir serve still running, and the network up?",
    );
  }
}

async function errorText(response) {
  try {
    const { error } = await response.json();
    if (typeof error === "string") return error;
  } catch {
    // no JSON: a proxy has answered
  }
  return `The service responded with ${response.status} ${response.statusText}`.trim() + ".";
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    });
  });
}
