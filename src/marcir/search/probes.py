"""How much of the approximate index a search reads."""

import math

# An approximate index alone finds two of three neighbours; candidates are compared exactly again.
REFINE = 10
# Vectors per partition of the index, and the share of the partitions that a search without filter reads: half
# gave recall@10 0.988 on 200,000 clustered vectors, a third 0.973 in 0.94 of the time; at least 0.998 both
# on 1,000,000.
PARTITION_ROWS = 1000
PROBED = 0.5
_MIN_PROBED = 20
_ALL = 10**6  # partitions: more than any index has
# With a filter, the partitions near a query may hold none of the nearest rows that pass. Recall@10 on
# 1,000,000 clustered vectors, by the share of the partitions that is read; "own" labels belong to whole
# clusters, as those of images do, the others to random rows:
#
#     rows that pass    100 %   90 %   10 %   10 % own   2 %    2 % own   0.1 %   0.1 % own
#     a third           1.000   0.996  0.996  0.708      0.958  0.767     0.725   0.562
#     half              1.000   1.000  1.000  0.921      0.992  0.904     0.892   0.596
#     70 %              1.000   1.000  1.000  1.000      1.000  1.000     0.983   0.596
#     all               1.000   1.000  1.000  1.000      1.000  1.000     1.000   1.000
#
# So the share grows until as many passing rows are read as without a filter; all partitions where half of the
# rows or fewer pass. Reading all took up to twice as long as reading a third.
# Rows that pass and are compared exactly instead: on a busy machine about 1,000 of 1,000,000 took 130 to 290
# ms where all partitions took 120 to 180 ms, on a less busy one 44 ms and 93 ms. Both should grow with their
# rows, hence a share for larger tables, which was not measured.
_FEW = 1000
_FEW_SHARE = 0.001


def probes(passing: int, total: int, k: int) -> int | None:
    """Number of partitions of the index that a search reads; None where it is exact instead.

    Args:
        passing: Number of rows that pass the filter.
        total: Number of all rows.
        k: Number of neighbours.

    >>> probes(1_000_000, 1_000_000, 10), probes(800_000, 1_000_000, 10), probes(900, 1_000_000, 10)
    (500, 625, None)
    """
    if passing <= max(_FEW, k, _FEW_SHARE * total):
        return None
    share = PROBED * total / passing
    return _ALL if share >= 1 else max(_MIN_PROBED, math.ceil(share * total / PARTITION_ROWS))
