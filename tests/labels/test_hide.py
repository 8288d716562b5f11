"""Hidden labels: how many, which, and what stays as it was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from marcir.errors import ConfigError, LabelError
from marcir.labels.hide import HOW, hide_labels

SHARES = st.floats(0, 0.99)
SEEDS = st.integers(0, 2**63 - 1)


@st.composite
def label_matrices(draw: st.DrawFn) -> Tensor:
    """Labels present, absent and unknown."""
    rows, columns, seed = draw(st.integers(1, 12)), draw(st.integers(1, 30)), draw(st.integers(0, 1000))
    least = draw(st.sampled_from([-1, 0]))
    return torch.randint(least, 2, (rows, columns), generator=torch.Generator().manual_seed(seed))


@given(label_matrices(), SHARES, st.sampled_from(HOW), SEEDS)
def test_what_is_not_hidden_stays_and_nothing_unknown_becomes_known(
    y: Tensor, share: float, how: str, seed: int
) -> None:
    before = y.clone()
    hidden = hide_labels(y, share, how, seed)  # type: ignore[arg-type]  # one of HOW
    assert torch.equal(y, before)
    assert hidden.dtype == torch.int8
    known = hidden != -1
    assert torch.equal(hidden[known].long(), y[known])
    assert not known[y == -1].any()
    assert torch.equal(hidden, hide_labels(y, share, how, seed))  # type: ignore[arg-type]


@given(label_matrices(), SHARES, SEEDS)
def test_present_only_never_states_absent_and_keeps_what_uniform_keeps(
    y: Tensor, share: float, seed: int
) -> None:
    uniform, present = (hide_labels(y, share, how, seed) for how in HOW)
    assert not (present == 0).any()
    assert torch.equal(present == 1, uniform == 1)


@given(label_matrices(), SHARES, SHARES, st.sampled_from(HOW), SEEDS)
def test_a_larger_share_hides_the_same_labels_and_more(
    y: Tensor, one: float, other: float, how: str, seed: int
) -> None:
    less, more = (hide_labels(y, share, how, seed) for share in sorted((one, other)))  # type: ignore[arg-type]
    assert (more[less == -1] == -1).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_share_is_that_of_present_and_of_absent_labels(share: float) -> None:
    y = torch.rand(2000, 20, generator=torch.Generator().manual_seed(1)) < 0.2
    hidden = hide_labels(y, share, "uniform", 3) == -1
    assert float(hidden[y].float().mean()) == pytest.approx(share, abs=0.02)
    assert float(hidden[~y].float().mean()) == pytest.approx(share, abs=0.02)
    present = hide_labels(y, share, "present-only", 3) == -1
    assert float(present[y].float().mean()) == pytest.approx(share, abs=0.02)
    assert present[~y].all()


def test_another_seed_hides_other_labels() -> None:
    y = torch.ones(20, 5)
    assert not torch.equal(hide_labels(y, 0.5, seed=0), hide_labels(y, 0.5, seed=1))


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, float("nan")])
def test_a_share_outside_the_range_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"share = .*: must be at least 0 and below 1"):
        hide_labels(torch.eye(2), share)


def test_an_unknown_way_and_wrong_labels_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"how = 'unifrm': unknown. Did you mean 'uniform'?"):
        hide_labels(torch.eye(2), 0.5, "unifrm")  # type: ignore[arg-type]
    with pytest.raises(LabelError, match="found 2 in row 0"):
        hide_labels(torch.full((1, 1), 2), 0.5)
