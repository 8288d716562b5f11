"""The kinds of generated scenes and how often each is drawn, which gives the labels their long tail."""

from collections.abc import Callable

from marcir.scenes import lands as lands
from marcir.scenes import towns as towns
from marcir.scenes import waters as waters
from marcir.scenes.canvas import Canvas

Kind = Callable[[Canvas], None]

# Weights, not shares. Streets and gardens are everywhere; airplanes, docks and tanks are not.
KINDS: tuple[tuple[Kind, float], ...] = (
    (towns.residential, 2.6),
    (towns.homestead, 1.3),
    (towns.highway, 1.7),
    (towns.crossing, 1.4),
    (towns.parking_lot, 1.2),
    (towns.industry, 1.2),
    (towns.mobile_home_park, 1.0),
    (towns.sports_ground, 1.0),
    (towns.airport, 1.0),
    (towns.runway, 0.7),
    (towns.tank_farm, 1.0),
    (lands.forest, 1.1),
    (lands.farmland, 1.1),
    (lands.dry_country, 1.1),
    (lands.wasteland, 1.0),
    (lands.golf_course, 1.1),
    (lands.ball_field, 0.9),
    (waters.river, 1.1),
    (waters.lake, 0.6),
    (waters.harbour, 1.0),
    (waters.beach, 1.0),
    (waters.sea_lane, 0.4),
)
