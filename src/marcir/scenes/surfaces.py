"""Surfaces of the generated scenes.

A surface is known by its texture: furrows are a field, swell and surf are the sea, stones bare soil. Its
colour is the scene's and may be that of another surface.
"""

import math
from dataclasses import dataclass

import numpy as np

from marcir.scenes.canvas import Canvas, Mask, Span
from marcir.scenes.look import Pixels


@dataclass(frozen=True)
class Surface:
    """A texture: two tones that waves and blotches mix, a grain in the light, specks above."""

    grain: tuple[tuple[int, Span], ...]  # cells across the frame and strength of each noise in the light
    blotches: Span  # how much large noise mixes the tones
    second: float = 0.85  # light of the second tone; 0: it is the scene's bare soil
    waves: Span = 0.0  # how much parallel waves mix the tones
    frequency: Span = 10.0  # waves in a length of 1
    bent: float = 0.0  # how much noise bends them
    specks: tuple[int, Span, Span] | None = None  # cells, threshold and lightness of stones or foam
    crests: bool = False  # specks keep to the shore and to the crests of waves, which follow the shore
    shore: Span = 1.0  # its width inside the edge
    bank: Span = 0.0  # light that the shore takes
    joints: float = 0.0  # how often there are slabs with joints


SURFACES: dict[str, Surface] = {
    "bare soil": Surface(
        ((14, (0.05, 0.12)), (36, (0.04, 0.14))), 1.6, second=0.78, specks=(72, (0.7, 0.9), (50, 215))
    ),
    "field": Surface(
        ((70, 0.06), (5, 0.06)), 0.2, second=0, waves=(0.35, 0.9), frequency=(9, 22), bent=0.04
    ),
    "grass": Surface(((48, (0.14, 0.26)), (9, (0.02, 0.06))), 0.9),
    "pavement": Surface(((90, (0.02, 0.07)), (5, (0.02, 0.08))), (0.0, 0.6), second=0.92, joints=0.35),
    "sand": Surface(((80, 0.03),), (0.1, 0.6), waves=(0.1, 0.4), frequency=(12, 20), bent=0.9),
    "sea": Surface(
        ((70, 0.05),), 0.3, second=0.65, waves=(0.2, 0.5), frequency=(6, 11), bent=0.3,
        specks=(22, (1.6, 2.4), (205, 245)), crests=True, shore=(0.12, 0.4),
    ),
    "water": Surface(
        ((3, (0.05, 0.2)), (90, 0.02)), 0.3, waves=(0.0, 0.4), frequency=(18, 30), bent=0.8,
        shore=0.06, bank=(0.2, 0.5),
    ),
}  # fmt: skip


def texture(canvas: Canvas, name: str, depth: Pixels) -> Pixels:
    """A surface over the whole frame, in 0..255. (3, side, side)

    Args:
        canvas: The scene.
        name: The surface.
        depth: Distance from the edge of the part that is painted with it. (side, side)
    """
    draw, noise, surface = canvas.draw, canvas.noise, SURFACES[name]
    angle = draw((0, math.tau))
    way = depth if surface.crests else canvas.along * math.cos(angle) + canvas.across * math.sin(angle)
    wave = np.sin(math.tau * (draw(surface.frequency) * way + surface.bent * noise(6)))
    share = np.clip(0.5 + draw(surface.waves) * wave + draw(surface.blotches) * noise(5), 0, 1)
    shore = np.clip(1 - depth / draw(surface.shore), 0, 1)
    light = 1 - draw(surface.bank) * shore
    for cells, strength in surface.grain:
        light += draw(strength) * noise(cells)
    if canvas.rng.random() < surface.joints:
        light -= draw((0.08, 0.2)) * _joints(canvas, draw((0.11, 0.2)))
    first, second = _two_tones(canvas, name, surface.second)
    mixed: Pixels = (first + share * (second - first)) * light
    if surface.specks:
        cells, threshold, lightness = surface.specks
        height = noise(cells) + surface.crests * (wave + 0.5 * noise(60) + 1.3 * shore)
        mixed += np.clip((height - draw(threshold)) * 4, 0, 0.9) * (draw(lightness) - mixed)
    return mixed


def _two_tones(canvas: Canvas, name: str, light: float) -> tuple[Pixels, Pixels]:
    """The tones that are mixed. Two of (3, 1, 1)"""
    first = canvas.look.tone(name)
    second = canvas.look.tone(name if light else "bare soil", spread=13) * (light or 0.85)
    if not light:
        second = first + canvas.draw((0.35, 1)) * (second - first)
    return first.astype(np.float32).reshape(3, 1, 1), second.astype(np.float32).reshape(3, 1, 1)


def _joints(canvas: Canvas, spacing: float) -> Mask:
    """The joints between square slabs. (side, side)"""
    wide = 0.009 / spacing
    joints: Mask = (canvas.along / spacing % 1 < wide) | (canvas.across / spacing % 1 < wide)
    return joints
