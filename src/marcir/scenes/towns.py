"""Kinds of generated scenes where people live, work and drive."""

import math

from marcir.scenes.buildings import court, hall, mobile_home, tank
from marcir.scenes.canvas import Canvas
from marcir.scenes.grounds import (
    WHITE,
    YELLOW,
    bridge,
    house_row,
    open_ground,
    parking,
    paved_yard,
    road,
    road_traffic,
    side_road,
    spot,
    straight,
    upright,
)
from marcir.scenes.look import mixed_tone
from marcir.scenes.plants import avenue, grove, tree
from marcir.scenes.shapes import FAR, NEAR, circle, offset, pick, rectangle, steps, winding
from marcir.scenes.surfaces import bare_soil, grass, pavement
from marcir.scenes.vehicles import airplane, car


def residential(canvas: Canvas) -> None:
    """Streets of houses with gardens, driveways, parked cars and garden trees."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.85)
    street, y = pavement(canvas, joints=False), rng.uniform(0.3, 0.7)
    spacing, share, width = rng.uniform(0.24, 0.36), rng.uniform(0.65, 1.0), rng.uniform(0.1, 0.15)
    cars, trees = rng.uniform(0.3, 0.8), rng.uniform(0.14, 0.26)
    road(canvas, straight(y), width, 1, street)
    if rng.random() < 0.3:
        road(canvas, upright(straight(rng.uniform(-0.1, 1.1))), width, 1, street)
    for towards in (-1, 1):
        house_row(canvas, y, towards, spacing, share, street, cars)
        house_row(canvas, y + towards * 0.68, -towards, spacing, share, street, cars)
    for x in steps(NEAR, FAR, 0.16):
        if rng.random() < 0.4 * cars:
            side = pick(rng, [-0.3, 0.3])
            car(canvas, x, y + side * width, pick(rng, [0.0, math.pi]))
    for towards in (-1, 1):
        avenue(canvas, y + towards * 0.4, trees, 0.065, wobble=0.04)


def homestead(canvas: Canvas) -> None:
    """One or two houses among trees, on grass or earth."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.35)
    drive = pavement(canvas, joints=False)
    if rng.random() < 0.3:
        side_road(canvas, drive)
    grove(canvas, *spot(canvas), 0.9, int(rng.integers(22, 44)), rng.uniform(0.06, 0.09))
    house_row(canvas, rng.uniform(0.15, 0.35), 1, rng.uniform(0.45, 0.6), 1.0, drive, 0.0)


def highway(canvas: Canvas) -> None:
    """Two carriageways with traffic between verges, sometimes under a bridge."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.7)
    surface, lanes = pavement(canvas), int(rng.integers(2, 4))
    path = winding(rng, rng.uniform(0.35, 0.65), rng.uniform(0, 0.1))
    width, gap, share = 0.085 * lanes, rng.uniform(0.02, 0.14), rng.uniform(0.25, 0.6)
    ways = [offset(path, side * (width + gap) / 2) for side in (-1, 1)]
    for way in ways:
        road(canvas, way, width, lanes, surface)
    if rng.random() < 0.25:
        grove(canvas, rng.uniform(0, 1), pick(rng, [0.0, 1.0]), 0.6, int(rng.integers(12, 24)), 0.07)
    for way in ways:
        road_traffic(canvas, way, width, lanes, share)
    if rng.random() < 0.35:
        bridge(canvas, 0.25, 0.4, 0.2, share)


def crossing(canvas: Canvas) -> None:
    """Two streets that meet, with zebra stripes, corner buildings, cars and street trees."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.3)
    surface, lanes = pavement(canvas, joints=False), int(rng.integers(2, 5))
    width, (x, y), share = 0.075 * lanes, spot(canvas, 0.35), rng.uniform(0.25, 0.55)
    ways = [straight(y), upright(straight(x, rng.uniform(-0.25, 0.25)))]
    for way in ways:
        road(canvas, way, width, lanes, surface)
    canvas.fill(rectangle(x, y, width * 0.94, width * 0.94), surface.mean((1, 2)), "pavement")
    for across in steps(-0.4, 0.5, 0.2):
        for side in (-1, 1):
            stripe = rectangle(x + side * width * 0.68, y + across * width, 0.06, 0.02)
            canvas.fill(stripe, WHITE, "pavement")
    road_traffic(canvas, ways[0], width, lanes, share)
    road_traffic(canvas, ways[1], width, lanes, share, clear=[(x, y)])
    for sx, sy in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        what, length = rng.random(), rng.uniform(0.22, 0.36)
        cx, cy = x + sx * (width / 2 + 0.26), y + sy * (width / 2 + 0.24)
        if what < 0.75:
            hall(canvas, cx, cy, length, length * rng.uniform(0.6, 1), 0)
        elif what < 0.85:
            grove(canvas, cx, cy, 0.18, int(rng.integers(6, 10)), 0.07)


def parking_lot(canvas: Canvas) -> None:
    """Rows of parked cars, sometimes beside a hall, a lawn or a row of trees."""
    rng = canvas.rng
    canvas.paint(pavement(canvas, joints=False), "pavement")
    rows, share, beside = int(rng.integers(4, 9)), rng.uniform(0.4, 0.95), rng.random()
    parking(canvas, rng.uniform(0.35, 0.65), 0.5, int(rng.integers(12, 24)), rows, share)
    if beside < 0.15:
        hall(canvas, 0.5, 0.0, 1.4, 0.35, 0)
    elif beside < 0.3:
        canvas.paint(grass(canvas), "grass", canvas.uv[1] < rng.uniform(0.08, 0.2))
    if rng.random() < 0.2:
        avenue(canvas, 0.14, rng.uniform(0.12, 0.18), 0.06)


def industry(canvas: Canvas) -> None:
    """Halls on a paved yard, with lorries and cars between them."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.35)
    paved_yard(canvas, rng.uniform(1.1, 2), rng.uniform(1.1, 2))
    cells, turn, busy = pick(rng, [1, 2, 2, 2, 3, 3]), rng.normal(0, 0.05), rng.random() < 0.4
    step = 1.1 / cells
    for x in steps(-0.05 + step / 2, 1.05, step):
        for y in steps(-0.05 + step / 2, 1.05, step):
            length, width = step * rng.uniform(0.45, 0.75), step * rng.uniform(0.4, 0.7)
            if cells == 1 or rng.random() < 0.85:
                hall(canvas, x, y, length, width, turn)
            if busy and rng.random() < 0.6:
                for k in range(rng.integers(2, 5)):
                    car(canvas, x - step * 0.3 + 0.07 * k, y + step * 0.46, math.pi / 2)


def mobile_home_park(canvas: Canvas) -> None:
    """Mobile homes side by side along lanes, with cars and a few trees between them."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.3, mixed_share=0.05)
    lane, pitch, length = pavement(canvas, joints=False), rng.uniform(0.11, 0.15), rng.uniform(0.2, 0.26)
    slant, block = pick(rng, [-0.4, 0.0, 0.4]) + rng.normal(0, 0.04), 0.42
    start, cars, homes = rng.uniform(-0.2, 0.1), rng.uniform(0.15, 0.4), rng.uniform(0.6, 0.9)
    for k in range(-1, 4):
        road(canvas, straight(start + k * block), 0.08, 1, lane)
    for k in range(-1, 4):
        y = start + (k + 0.5) * block
        for x in steps(NEAR, FAR, pitch):
            what = rng.random()
            if what < homes:
                mobile_home(canvas, x, y + rng.normal(0, 0.008), length, math.pi / 2 + slant)
            elif what < homes + 0.08:
                tree(canvas, x, y, rng.uniform(0.05, 0.07))
            if rng.random() < cars:
                car(canvas, x, y - block / 2 + 0.018, 0)


def sports_ground(canvas: Canvas) -> None:
    """Courts side by side, with trees or a club house around them."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.8)
    count, length = int(rng.integers(1, 4)), rng.uniform(0.42, 0.62)
    if rng.random() < 0.3:
        paved_yard(canvas, length * 1.5, rng.uniform(0.9, 1.8))
    step = length * 0.8
    top = 0.5 - (count - 1) * step / 2 + rng.uniform(-0.1, 0.1)
    for k in range(count):
        court(canvas, 0.5, top + k * step, length, 0)
    if rng.random() < 0.75:
        grove(canvas, pick(rng, [0.02, 0.98]), rng.uniform(0, 1), 0.4, int(rng.integers(9, 18)), 0.07)
    if rng.random() < 0.2:
        hall(canvas, pick(rng, [0.0, 1.0]), rng.uniform(0.2, 0.8), 0.26, 0.38, 0)


def airport(canvas: Canvas) -> None:
    """Airplanes on an apron with guide lines, beside a verge or a terminal."""
    rng = canvas.rng
    canvas.paint(pavement(canvas, joints=rng.random() < 0.6), "pavement")
    if rng.random() < 0.6:
        verge, label = pick(rng, [(grass, "grass"), (grass, "grass"), (bare_soil, "bare soil")])
        canvas.paint(verge(canvas), label, canvas.uv[1] > rng.uniform(0.75, 0.92))
    if rng.random() < 0.35:
        hall(canvas, 0.5, -0.06, 1.5, 0.3, 0)
    canvas.line(straight(rng.uniform(0.3, 0.7)), 0.012, YELLOW * rng.uniform(0.8, 1), "pavement")
    length = rng.uniform(0.42, 0.7)
    heading = pick(rng, [-1, 1]) * math.pi / 2 + rng.normal(0, 0.15)
    for x in steps(rng.uniform(-0.4, 0.2), 1.4, length * 1.12):
        if rng.random() < 0.85:
            airplane(canvas, x, rng.uniform(0.38, 0.52), length * rng.uniform(0.9, 1.1), heading)
    for x in rng.uniform(0, 1, pick(rng, [0, 0, 6])).tolist():
        car(canvas, x, rng.uniform(0.1, 0.16), 0)


def runway(canvas: Canvas) -> None:
    """A runway with its threshold bars and centre line between verges."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.75)
    width, y, chalk = rng.uniform(0.34, 0.6), rng.uniform(0.4, 0.6), WHITE * rng.uniform(0.8, 1.05)
    canvas.paint(pavement(canvas), "pavement", canvas.inside(rectangle(0.5, y, 2, width)))
    for edge in (-0.42, 0.42):
        canvas.line(straight(y + edge * width), 0.018, chalk, "pavement")
    for x in steps(rng.uniform(-0.5, -0.2), FAR, 0.32):
        canvas.fill(rectangle(x, y, 0.18, 0.022), chalk, "pavement")
    threshold = rng.uniform(-0.1, 1.1)
    for across in steps(-0.34, 0.35, 0.085):
        canvas.fill(rectangle(threshold, y + across * width, 0.16, 0.03 * width), chalk, "pavement")


def tank_farm(canvas: Canvas) -> None:
    """Storage tanks in rows on earth, grass or paving, with a road or a shed."""
    rng = canvas.rng
    open_ground(canvas, grass_share=0.2)
    if rng.random() < 0.35:
        paved_yard(canvas, 1.1, rng.uniform(0.5, 1.4))
    radius, tone = rng.uniform(0.1, 0.2), mixed_tone(rng, "metal")
    step = radius * rng.uniform(2.35, 2.8)
    for x in steps(rng.uniform(-0.1, 0.2), 1.2, step):
        for y in steps(0.12 + radius / 2, 0.9, step):
            if rng.random() < 0.9:
                bund = circle(x, y, radius * 1.14, 24)
                canvas.line([*bund, bund[0]], 0.012, canvas.look.tones["pavement"], "tank")
                tank(canvas, x, y, radius * pick(rng, [0.7, 1.0, 1.0]), tone + rng.normal(0, 8))
    if rng.random() < 0.15:
        hall(canvas, rng.uniform(0, 1), pick(rng, [0.0, 1.0]), 0.4, 0.26, 0)
