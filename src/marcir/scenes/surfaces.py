"""Surfaces of the generated scenes: each a texture over the whole frame, in 0..255. (3, side, side)

A surface is known by its texture: furrows are a field, swell and surf are the sea, ruts and stones bare
soil. Its colour is the scene's and may be that of another surface.
"""

import math

import numpy as np

from marcir.scenes.canvas import Canvas, Mask
from marcir.scenes.look import Colour, Pixels, mixed_tone


def _toned(colour: Colour, light: Pixels) -> Pixels:
    """A colour under a field of relative light. (3, side, side)"""
    return np.multiply.outer(colour.astype(np.float32), light)


def _blend(below: Pixels, above: Pixels, share: Pixels) -> Pixels:
    """`above` laid over `below` with a share between 0 and 1 at each pixel. (3, side, side)"""
    above -= below
    above *= share
    above += below
    return above


def _waves(canvas: Canvas, angle: float, frequency: float, phase: Pixels | float = 0.0) -> Pixels:
    """Parallel waves in -1..1 across the scene, their phase bent by a field. (side, side)"""
    u, v = canvas.uv
    across = u * math.cos(angle) + v * math.sin(angle)
    waves: Pixels = np.sin(math.tau * frequency * across + math.tau * phase)
    return waves


def grass(canvas: Canvas) -> Pixels:
    """Soft tufts with drier and fresher places; sometimes mown in stripes."""
    rng = canvas.rng
    tufts = rng.uniform(0.14, 0.26) * canvas.noise(48) + rng.uniform(0.02, 0.06) * canvas.noise(9)
    if rng.random() < 0.3:
        mown = _waves(canvas, rng.uniform(0, math.tau), rng.uniform(4, 9))
        tufts = tufts + rng.uniform(0.03, 0.08) * np.sign(mown)
    fresh = _toned(canvas.look.tone(rng, "grass"), 1 + tufts)
    dry = _toned(canvas.look.tone(rng, "grass", spread=16), 1 + tufts)
    return _blend(fresh, dry, np.clip(canvas.noise(4) + 0.4 * canvas.noise(12), 0, 1))


def bare_soil(canvas: Canvas) -> Pixels:
    """Blotches of two earths, ruts of wheels and scattered stones."""
    rng = canvas.rng
    clods = rng.uniform(0.05, 0.1) * canvas.noise(14) + rng.uniform(0.01, 0.04) * canvas.noise(64)
    light = _toned(canvas.look.tone(rng, "bare soil"), 1.04 + clods)
    dark = _toned(canvas.look.tone(rng, "bare soil", spread=14) * 0.82, 0.98 + clods)
    earth = _blend(light, dark, np.clip(0.5 + 1.6 * canvas.noise(6), 0, 1))
    for _ in range(rng.integers(2, 5)):
        earth *= 1 - rng.uniform(0.12, 0.26) * _ruts(canvas)
    stones = canvas.noise(72) > rng.uniform(0.8, 0.95)
    earth += rng.uniform(-35, 45) * stones
    return earth


def _ruts(canvas: Canvas) -> Pixels:
    """The two tracks of one vehicle across the scene, 1 in the track. (side, side)"""
    rng = canvas.rng
    u, v = canvas.uv
    turn, place = rng.uniform(0, math.pi), rng.uniform(0.15, 0.85)
    along = (u - 0.5) * math.cos(turn) + (v - 0.5) * math.sin(turn)
    across = (v - 0.5) * math.cos(turn) - (u - 0.5) * math.sin(turn)
    bend = rng.uniform(-0.3, 0.3) * np.sin(rng.uniform(2, 6) * along)
    apart = np.abs(np.abs(across + bend - place - 0.5) - 0.022)
    return (apart < 0.009).astype(np.float32)


def sand(canvas: Canvas) -> Pixels:
    """Smooth, with wind ripples here and there and damp, darker places."""
    rng = canvas.rng
    u_angle, bent = rng.uniform(0, math.tau), 0.9 * canvas.noise(6)
    ripples = _waves(canvas, u_angle, rng.uniform(12, 20), bent) * np.clip(canvas.noise(4) + 0.3, 0, 1)
    light = 1 + rng.uniform(0.03, 0.08) * ripples + 0.03 * canvas.noise(80)
    damp = 1 - rng.uniform(0.0, 0.2) * np.clip(canvas.noise(3), 0, 1)
    return _toned(canvas.look.tone(rng, "sand"), light * damp)


def pavement(canvas: Canvas, joints: bool | None = None) -> Pixels:
    """Even, with mended patches, cracks, and joints where it is concrete."""
    rng = canvas.rng
    light = 1 + 0.04 * canvas.noise(5) + rng.uniform(0.01, 0.06) * canvas.noise(90)
    light = light - rng.uniform(0, 0.22) * (np.abs(canvas.noise(7)) < 0.025)
    for _ in range(rng.integers(0, 3)):
        x, y, w, h = rng.uniform((0, 0, 0.05, 0.05), (1, 1, 0.3, 0.2)).tolist()
        u, v = canvas.uv
        mended = (np.abs(u - x) < w) & (np.abs(v - y) < h)
        light = light * (1 + rng.uniform(-0.14, 0.1) * mended)
    if rng.random() < 0.35 if joints is None else joints:
        light = light - rng.uniform(0.08, 0.2) * _joints(canvas, rng.uniform(0.11, 0.2))
    return _toned(canvas.look.tone(rng, "pavement"), light)


def _joints(canvas: Canvas, spacing: float) -> Mask:
    """The joints between square slabs. (side, side)"""
    u, v = canvas.uv
    wide = 0.009 / spacing
    return (u / spacing % 1 < wide) | (v / spacing % 1 < wide)


def water(canvas: Canvas) -> Pixels:
    """Calm: large soft changes of depth, faint short ripples, sometimes the glint of the sun."""
    rng = canvas.rng
    ripples = _waves(canvas, rng.uniform(0, math.tau), rng.uniform(18, 30), 1.2 * canvas.noise(9))
    strength = rng.uniform(0.0, 0.07) * np.clip(0.5 + canvas.noise(5), 0, 1)
    light = 1 + rng.uniform(0.05, 0.2) * canvas.noise(3) + strength * ripples
    calm = _toned(canvas.look.tone(rng, "water"), light + 0.02 * canvas.noise(90))
    if rng.random() < 0.3:
        u, v = canvas.uv
        x, y = rng.uniform(0, 1, 2).tolist()
        glint = np.exp(-((u - x) ** 2 + (v - y) ** 2) * rng.uniform(4, 12))
        calm += rng.uniform(20, 80) * (glint * (1 + canvas.noise(64)))
    return calm


def sea(canvas: Canvas, depth: Pixels, surf: float = 0.0) -> Pixels:
    """Swell that rolls towards the shore, crests of foam, and surf within `surf` of the shore.

    Args:
        canvas: The scene.
        depth: Distance from the shore at each pixel; negative on land. (side, side)
        surf: Width of the breaking waves; 0 on the open sea.
    """
    rng = canvas.rng
    bent = 0.35 * canvas.noise(4) + 0.12 * canvas.noise(14)
    phase = math.tau * (depth * rng.uniform(6, 11) + bent)
    swell = np.sin(phase) + 0.4 * np.sin(2.3 * phase + 1)
    deep = 1 - rng.uniform(0.1, 0.45) * np.clip(depth / 0.8, 0, 1)
    light = deep * (1 + rng.uniform(0.06, 0.14) * swell + 0.05 * canvas.noise(70))
    rolling = _toned(canvas.look.tone(rng, "sea"), light)
    broken = canvas.noise(22) + 0.6 * canvas.noise(60)
    caps = np.clip((swell + 0.9 * broken - rng.uniform(1.6, 2.2)) * 3, 0, 1)
    if surf > 0:
        near = np.clip(1 - depth / surf, 0, 1)
        breakers = np.sin(phase * rng.uniform(0.8, 1.3)) + 0.9 * broken + 1.6 * near
        caps = np.maximum(caps, np.clip((breakers - 0.9) * 2, 0, 1) * np.clip(near * 3, 0, 1))
    foam = np.full_like(rolling, rng.uniform(205, 245))
    return _blend(rolling, foam, caps * rng.uniform(0.65, 0.95))


def field(canvas: Canvas) -> Pixels:
    """Rows of a crop on its soil: fine or coarse, strong or faint, with uneven growth."""
    rng = canvas.rng
    rows = _waves(canvas, rng.uniform(0, math.pi), rng.uniform(9, 22), 0.04 * canvas.noise(5))
    growth = np.clip(0.55 + 0.35 * np.tanh(2.5 * rows) + 0.15 * canvas.noise(6), 0, 1)
    plants = mixed_tone(rng, "crop")
    earth = plants + rng.uniform(0.35, 1.0) * (canvas.look.tone(rng, "bare soil", spread=12) - plants)
    if np.abs(earth - plants).max() < 30:
        earth = plants * rng.choice([0.68, 1.35])
    grain = 1 + 0.06 * canvas.noise(70) + 0.06 * canvas.noise(5)
    return _blend(_toned(earth, grain), _toned(plants, grain), growth)


def open_sea(canvas: Canvas) -> Pixels:
    """Swell and crests of foam without a shore."""
    u, v = canvas.uv
    angle = canvas.rng.uniform(0, math.tau)
    return sea(canvas, u * math.cos(angle) + v * math.sin(angle) + 1)
