// Tiles of another host under the map: by their addresses, or from one file of raster tiles (PMTiles), which is
// read by ranges of bytes.

import * as maplibre from "./vendor/maplibre-gl.mjs";

const PATIENCE = 10_000; // milliseconds
const PICTURES = [2, 3, 4, 5]; // types of tiles in an archive: PNG, JPEG, WebP, AVIF
const SIZE = 256;

/**
 * The tiles at an address, as a source of MapLibre.
 * @param {string} url with {z}, {x} and {y}, or of an archive
 * @throws {Error} where it is an archive that cannot be shown
 */
export async function tilesOf(url) {
  if (url.includes("{")) return { type: "raster", tiles: [url], tileSize: SIZE, maxzoom: 19 };
  await library();
  const { PMTiles, Protocol } = window["pmtiles"];
  const archive = new PMTiles(url);
  const header = await withPatience(archive.getHeader());
  if (!PICTURES.includes(header.tileType)) throw new Error("its tiles are no pictures, but vectors.");
  const protocol = new Protocol();
  protocol.add(archive);
  maplibre.addProtocol("pmtiles", protocol.tile);
  const { minLon, minLat, maxLon, maxLat, minZoom, maxZoom } = header;
  return {
    type: "raster",
    tiles: [`pmtiles://${url}/{z}/{x}/{y}`],
    tileSize: SIZE,
    minzoom: minZoom,
    maxzoom: maxZoom,
    ...(minLon < maxLon && minLat < maxLat ? { bounds: [minLon, minLat, maxLon, maxLat] } : {}),
  };
}

/** The code that reads archives. It is a script and not a module. */
const library = () =>
  new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), {
      src: new URL("./vendor/pmtiles.js", import.meta.url).href,
    });
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error("the code for archives cannot be loaded.")));
    document.head.append(script);
  });

/** What is promised, unless it takes too long: the map waits for it. */
async function withPatience(promised) {
  let timer = 0;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in 10 seconds")), PATIENCE);
  });
  try {
    return await Promise.race([promised, late]);
  } catch (error) {
    throw new Error(`the archive cannot be read (${error.message}).`);
  } finally {
    clearTimeout(timer);
  }
}
