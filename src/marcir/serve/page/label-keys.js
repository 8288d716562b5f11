// The labels on the keys 1 to 9. The browser keeps them for every archive.

const PREFIX = "marcir:label-keys:";
export const KEYS = 9;

/** @param {{name: string, labels: {name: string, count: number}[]}} archive without a choice: its most common labels */
export function makeLabelKeys(archive) {
  let chosen = stored(archive.name) ?? archive.labels.slice(0, KEYS).map(({ name }) => name);

  function set(next) {
    chosen = next;
    try {
      localStorage.setItem(PREFIX + archive.name, JSON.stringify(chosen));
    } catch {
      // storage is disabled: the choice is kept until the page is reloaded
    }
  }

  return {
    all: () => chosen,
    isFull: () => chosen.length >= KEYS,
    /** Puts a label on the next key; where all are taken, on the last one. */
    add: (label) => chosen.includes(label) || set([...chosen.slice(0, KEYS - 1), label]),
    remove: (label) => set(chosen.filter((each) => each !== label)),
  };
}

function stored(name) {
  try {
    const found = JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string").slice(0, KEYS) : null;
  } catch {
    return null;
  }
}
