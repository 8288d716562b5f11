// Colours of the map. The map is drawn by WebGL, which knows no CSS: colours are read from the style sheet.

/**
 * Colours from the least to the most similar, after viridis: lightness changes evenly, so that they can be read
 * without seeing colours, and the most similar stand out most. The ends that the ground would swallow are left out.
 */
const STEPS = {
  light: ["#d9b500", "#7fb53c", "#1f9478", "#2a788e", "#414487", "#440154"],
  dark: ["#6a5fb0", "#3a86a8", "#22a884", "#7ad151", "#fde725"],
};

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

export const similaritySteps = () => STEPS[isDark() ? "dark" : "light"];

/** The colours of the style sheet, resolved for the theme. */
export function readColours() {
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(
    ["map-water", "map-land", "map-coast", "map-border", "accent", "ink", "surface"].map((name) => [
      name,
      read(name),
    ]),
  );
  probe.remove();
  return colours;
}

/** Calls a function whenever the theme changes. */
export function onThemeChange(act) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
  new MutationObserver(act).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

/** The colour of a footprint by its similarity, as an expression of MapLibre. */
export function similarityColour([least, most], otherwise) {
  const steps = similaritySteps();
  const range = Math.max(most - least, 1e-6);
  const stops = steps.flatMap((colour, at) => [least + (range * at) / (steps.length - 1), colour]);
  return [
    "case",
    ["has", "similarity"],
    ["interpolate", ["linear"], ["get", "similarity"], ...stops],
    otherwise,
  ];
}
