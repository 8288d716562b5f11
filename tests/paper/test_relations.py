"""How the losses are related, which cases the paper promises, and what their gradients are.

What every loss of the catalog keeps (order, rotation, scale) is tested in `contracts/test_every_loss.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

import marcir
from marcir.catalog import LOSSES
from marcir.labels import LabelStatistics, jaccard
from marcir.losses import MultiLabelLoss, pair_influence
from marcir.losses.calibrated import calibrated_temperatures
from marcir.losses.marc_proto import rare_label_targets
from paper import golden, loops

D = 4
EXAMPLES = settings(max_examples=15)
SEEDS = st.integers(0, 2**16)
TAUS = st.sampled_from([0.05, 0.1, 0.3, 1.0])


# ---- Batches -------------------------------------------------------------------------------------


@st.composite
def label_matrices(draw: st.DrawFn, least: int = 2, most: int = 8, labels: int = 4) -> Tensor:
    """Any multi-hot matrix, its entries the bits of a whole number."""
    N = draw(st.integers(least, most))
    bits = draw(st.integers(0, 2 ** (N * labels) - 1))
    return torch.tensor([bits >> k & 1 for k in range(N * labels)]).view(N, labels)


@st.composite
def one_label_an_image(draw: st.DrawFn, labels: int = 4) -> Tensor:
    classes = draw(st.lists(st.integers(0, labels - 1), min_size=2, max_size=8))
    return torch.nn.functional.one_hot(torch.tensor(classes), labels)


@st.composite
def equal_or_disjoint(draw: st.DrawFn) -> Tensor:
    """Every image has one of four label sets that share nothing, the empty set among them."""
    sets = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])
    return sets[draw(st.lists(st.integers(0, 3), min_size=2, max_size=8))]


@st.composite
def equally_many_valid_labels(draw: st.DrawFn) -> Tensor:
    """Two labels with a partner for every image, and for some one more that nobody else has."""
    pairs = draw(st.lists(st.sets(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=4))
    alone = draw(st.lists(st.booleans(), min_size=2 * len(pairs), max_size=2 * len(pairs)))
    y = torch.zeros(2 * len(pairs), 4 + len(alone), dtype=torch.int64)
    for i, private in enumerate(alone):
        y[i, sorted(pairs[i // 2])] = 1
        y[i, 4 + i] = int(private)
    return y


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def make(name: str, y: Tensor, **options: Any) -> MultiLabelLoss:
    """A loss whose training labels are the batch's own."""
    statistics = LabelStatistics.from_labels(y)
    return marcir.create_loss(name, statistics=statistics, embedding_dim=D, **options).double()


def value_and_gradient(loss: MultiLabelLoss, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    value = loss(z, y)
    return value.detach(), *torch.autograd.grad(value, z)


def assert_equal(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> None:
    for x, x_other in zip(one, other, strict=True):
        torch.testing.assert_close(x, x_other, rtol=1e-9, atol=1e-9)


def assert_equal_losses(y: Tensor, seed: int, *losses: MultiLabelLoss) -> None:
    """The same value and the same gradient."""
    z = normal(seed, len(y), D)
    first, *others = [value_and_gradient(loss, z, y) for loss in losses]
    for other in others:
        assert_equal(other, first)


# ---- Losses that are one another -----------------------------------------------------------------


@EXAMPLES
@given(y=label_matrices(), seed=SEEDS, tau=TAUS)
@pytest.mark.parametrize("wg", ["", "wg-"])
def test_marc_without_its_two_parts_is_mulsupcon(wg: str, y: Tensor, seed: int, tau: float) -> None:
    assert_equal_losses(
        y,
        seed,
        make(wg + "mulsupcon", y, tau=tau),
        make(wg + "marc", y, tau=tau, plr=False, dts=False),
        make(wg + "marc", y, tau=tau, plr=False, tau_mode="scale", alpha=0.0, beta=0.0),
    )


@EXAMPLES
@given(y=one_label_an_image(), seed=SEEDS, tau=TAUS)
def test_six_losses_are_one_where_every_image_has_one_label(y: Tensor, seed: int, tau: float) -> None:
    names = ["supcon-all", "supcon-any", "lbase", "mulsupcon", "wg-mulsupcon", "sim-dis"]
    assert_equal_losses(y, seed, *(make(name, y, tau=tau) for name in names))


@EXAMPLES
@given(y=equally_many_valid_labels(), seed=SEEDS)
@pytest.mark.parametrize("name", ["mulsupcon", "marc"])
def test_the_means_agree_for_equally_many_valid_labels(name: str, y: Tensor, seed: int) -> None:
    assert_equal_losses(y, seed, make(name, y), make("wg-" + name, y))


@pytest.mark.parametrize("name", ["mulsupcon", "marc"])
def test_the_means_differ_for_unequally_many_valid_labels(name: str) -> None:
    z, y = golden.embeddings(), golden.labels()
    assert abs(make(name, y)(z, y) - make("wg-" + name, y)(z, y)) > 1e-3


@EXAMPLES
@given(y=equal_or_disjoint(), seed=SEEDS, tau=TAUS)
def test_five_losses_are_one_where_label_sets_are_equal_or_disjoint(y: Tensor, seed: int, tau: float) -> None:
    names = ["supcon-all", "supcon-any", "lbase", "sim-dis", "wg-mulsupcon"]
    assert_equal_losses(y, seed, *(make(name, y, tau=tau) for name in names))


def test_lbase_is_not_marc_without_its_two_parts() -> None:
    z, y = golden.embeddings(), golden.labels()
    assert abs(make("lbase", y)(z, y) - make("marc", y, plr=False, dts=False)(z, y)) > 1e-2


# ---- Losses with prototypes ----------------------------------------------------------------------


@EXAMPLES
@given(y=label_matrices(least=1), seed=SEEDS, tau=TAUS)
def test_l_wo_reg_is_wg_mulsupcon_on_the_batch_and_the_prototypes(y: Tensor, seed: int, tau: float) -> None:
    loss = make("l-wo-reg", y, tau=tau)
    z = normal(seed, len(y), D)
    value = loss(z, y)
    found = value, *torch.autograd.grad(value, [z, loss.prototypes])
    points = torch.cat([z, loss.prototypes])
    labels = torch.cat([y, torch.eye(y.shape[1], dtype=y.dtype)])
    value = make("wg-mulsupcon", y, tau=tau)(points, labels)
    assert_equal(found, (value, *torch.autograd.grad(value, [z, loss.prototypes])))


@EXAMPLES
@given(y=one_label_an_image(), seed=SEEDS, tau=TAUS)
def test_lmsc_is_supcon_with_prototypes_where_every_image_has_one_label(
    y: Tensor, seed: int, tau: float
) -> None:
    loss = make("lmsc", y, tau=tau, beta=1.0)
    z = normal(seed, len(y), D)
    value = loss(z, y)
    found = value, *torch.autograd.grad(value, [z, loss.prototypes])
    value = make("supcon-any", y, tau=tau)(
        z,
        y,
        torch.cat([z, loss.prototypes]),
        torch.cat([y, torch.eye(y.shape[1], dtype=y.dtype)]),
        torch.arange(len(y)),
    )
    assert_equal(found, (value, *torch.autograd.grad(value, [z, loss.prototypes])))


@EXAMPLES
@given(y=one_label_an_image(), seed=SEEDS, tau=TAUS)
def test_lproto_is_cross_entropy_where_every_image_has_one_label(y: Tensor, seed: int, tau: float) -> None:
    loss = make("lproto", y, tau=tau)
    z = normal(seed, len(y), D)
    value = loss(z, y)
    found = value, *torch.autograd.grad(value, [z, loss.prototypes])
    cosines = torch.cosine_similarity(z[:, None], loss.prototypes[None], dim=2)  # (N, L)
    value = torch.nn.functional.cross_entropy(cosines / tau, y.argmax(1))
    assert_equal(found, (value, *torch.autograd.grad(value, [z, loss.prototypes])))


# ---- OML -----------------------------------------------------------------------------------------


def average_precision(relevant: list[bool]) -> float:
    """The mean over relevant places of the precision there."""
    places = [place for place, is_relevant in enumerate(relevant, start=1) if is_relevant]
    return sum((found + 1) / place for found, place in enumerate(places)) / len(places)


@EXAMPLES
@given(y=label_matrices(), seed=SEEDS)
def test_oml_without_annealing_is_one_minus_the_exact_average_precision(y: Tensor, seed: int) -> None:
    z = normal(seed, len(y), D)
    s = loops.units(z.detach())
    losses = []
    for k in range(y.shape[1]):
        queries = y[:, k].nonzero().flatten().tolist()
        if len(queries) < 2:
            continue
        precisions = []
        for q in queries:
            others = sorted((i for i in range(len(y)) if i != q), key=lambda i: -float(s[q] @ s[i]))
            precisions.append(average_precision([bool(y[i, k]) for i in (q, *others)]))
        losses.append(1 - sum(precisions) / len(precisions))
    value = make("oml", y, norm="label", anneal=1e-7)(z, y)
    assert value.item() == pytest.approx(sum(losses) / len(losses) if losses else 0.0, abs=1e-9)


# ---- Calibrated MARC -----------------------------------------------------------------------------


@EXAMPLES
@given(y=one_label_an_image(), seed=SEEDS, tau=TAUS, gamma=st.floats(0, 3), mix=st.floats(0, 1))
def test_calibrated_marc_without_delta_is_supcon_where_every_image_has_one_label(
    y: Tensor, seed: int, tau: float, gamma: float, mix: float
) -> None:
    calibrated = make("marc-calibrated", y, tau=tau, delta=0.0, gamma=gamma, mix=mix)
    assert_equal_losses(y, seed, make("supcon-all", y, tau=tau), calibrated)


@EXAMPLES
@given(y=label_matrices(), seed=SEEDS, tau=TAUS)
def test_calibrated_marc_with_all_knobs_at_zero_is_wg_mulsupcon(y: Tensor, seed: int, tau: float) -> None:
    calibrated = make("marc-calibrated", y, tau=tau, delta=0.0, gamma=0.0, mix=0.0)
    assert_equal_losses(y, seed, make("wg-mulsupcon", y, tau=tau), calibrated)


def test_the_calibrated_temperature_rises_with_the_overlap_and_marcs_falls() -> None:
    y, y_other = torch.tensor([[1.0, 1, 1, 0]]), torch.tensor([[0.0, 0, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0]])
    J = jaccard(y, y_other)[0]
    assert (calibrated_temperatures(J).diff() > 0).all()
    T = marcir.losses.pair_temperatures(J[None], torch.ones(1))
    assert (T.diff() < 0).all()


# ---- Prototype MARC ------------------------------------------------------------------------------


def assert_equal_with_prototypes(y: Tensor, seed: int, *losses: MultiLabelLoss) -> None:
    """The same value and the same gradients for the same prototypes."""
    z = normal(seed, len(y), D)
    found = []
    for loss in losses:
        value = loss(z, y)
        found.append((value.detach(), *torch.autograd.grad(value, [z, *loss.parameters()])))
    for other in found[1:]:
        assert_equal(other, found[0])


@EXAMPLES
@given(y=label_matrices(least=1), seed=SEEDS, tau=TAUS)
def test_prototype_marc_without_pairs_and_rarity_is_lproto(y: Tensor, seed: int, tau: float) -> None:
    proto = make("marc-proto", y, lam=1.0, rarity=0.0, tau_proto=tau)
    assert_equal_with_prototypes(y, seed, make("lproto", y, tau=tau), proto)


@EXAMPLES
@given(y=label_matrices(least=1), seed=SEEDS, tau=TAUS)
def test_prototype_marc_with_all_options_at_zero_is_l_wo_reg(y: Tensor, seed: int, tau: float) -> None:
    proto = make("marc-proto", y, tau=tau, delta=0.0, gamma=0.0, mix=0.0, lam=0.0)
    assert_equal_with_prototypes(y, seed, make("l-wo-reg", y, tau=tau), proto)


@EXAMPLES
@given(y=one_label_an_image(), seed=SEEDS, tau=TAUS, gamma=st.floats(0, 3), mix=st.floats(0, 1))
def test_the_pairs_of_prototype_marc_are_supcon_with_prototypes_where_every_image_has_one_label(
    y: Tensor, seed: int, tau: float, gamma: float, mix: float
) -> None:
    loss = make("marc-proto", y, tau=tau, delta=0.0, gamma=gamma, mix=mix, lam=0.0)
    z = normal(seed, len(y), D)
    value = loss(z, y)
    found = value.detach(), *torch.autograd.grad(value, [z, loss.prototypes])
    points = torch.cat([z, loss.prototypes])
    labels = torch.cat([y, torch.eye(y.shape[1], dtype=y.dtype)])
    value = make("supcon-all", y, tau=tau)(points, labels)
    assert_equal(found, (value.detach(), *torch.autograd.grad(value, [z, loss.prototypes])))


def test_the_targets_of_prototype_marc_lean_towards_rare_labels() -> None:
    y, n = torch.tensor([[1.0, 1, 0], [0, 0, 0]]), torch.tensor([100, 1, 5])
    shares = [rare_label_targets(y, n, rarity)[0, 1].item() for rarity in (0.0, 0.25, 1.0)]
    assert shares == pytest.approx([0.5, 100**0.25 / (1 + 100**0.25), 100 / 101])
    assert rare_label_targets(y, n, 0.25)[1].tolist() == [0, 0, 0]


# ---- What holds for several losses ---------------------------------------------------------------


@EXAMPLES
@given(y=label_matrices(least=1), seed=SEEDS, place=st.integers(0, 4))
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"lproto", "lmsc", "l-wo-reg", "lreg", "marc-proto"}))
def test_a_label_that_nobody_has_changes_nothing(name: str, y: Tensor, seed: int, place: int) -> None:
    z = normal(seed, len(y), D)
    wider = torch.cat([y[:, :place], torch.zeros_like(y[:, :1]), y[:, place:]], 1)
    assert_equal(value_and_gradient(make(name, wider), z, wider), value_and_gradient(make(name, y), z, y))


@EXAMPLES
@given(y=label_matrices(least=1), seed=SEEDS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in LOSSES if name not in ("lreg", "lmsc")),
        ("lmsc", {"beta": 1.0}),
        ("oml", {"norm": "label"}),
        ("sim-dis", {"placement": "inside"}),
        ("l-wo-reg", {"overlap_power": -1.0}),
        ("marc", {"tau_mode": "scale", "frequency": "relative"}),
        ("marc-calibrated", {"plr": True}),
    ],
)
def test_a_loss_is_not_negative(name: str, options: dict[str, Any], y: Tensor, seed: int) -> None:
    assert make(name, y, **options)(normal(seed, len(y), D), y) >= -1e-12


def test_lmsc_may_be_negative_for_beta_below_one() -> None:
    y = torch.ones(2, 1, dtype=torch.int64)
    loss = make("lmsc", y, tau=1.0, beta=0.1)
    loss.prototypes.data = torch.tensor([[0.0, 1, 0, 0]], dtype=torch.float64)
    assert loss(torch.tensor([[1.0, 0, 0, 0]] * 2, dtype=torch.float64), y) < 0


def test_lreg_may_be_negative() -> None:
    # All are alike and positive, and the softmax is sharp: what is taken off is more than the contrast.
    y = torch.ones(6, 1, dtype=torch.int64)
    loss = make("lreg", y, tau=0.02)
    alike = torch.tensor([1.0, 0, 0, 0], dtype=torch.float64)
    loss.prototypes.data = alike[None].clone()
    assert loss(alike + 0.3 * normal(0, 6, D), y) < 0


# ---- The paper's two cases -----------------------------------------------------------------------


@EXAMPLES
@given(y=label_matrices(least=3, most=12), train=label_matrices(least=1, most=12))
@pytest.mark.parametrize("name", ["marc", "wg-marc"])
def test_a_full_match_pulls_more_than_a_partial_one(name: str, y: Tensor, train: Tensor) -> None:
    y = y.double()
    gamma = pair_influence(make(name, train), y, y)  # (B, B)
    shared, full = y @ y.T > 0, jaccard(y, y) == 1
    assume((shared & ~full).any())
    for i in range(len(y)):
        partial = gamma[i][shared[i] & ~full[i]]
        if len(partial):
            assert gamma[i, i] > partial.max()
        assert (gamma[i][~shared[i]] == 0).all()


@EXAMPLES
@given(rare=st.integers(1, 5), more=st.integers(1, 20), extra=st.integers(0, 1))
@pytest.mark.parametrize("name", ["marc", "wg-marc"])
@pytest.mark.parametrize("pair_frequency", ["joint", "shared_mean", "shared_min"])
def test_a_pair_that_shares_a_rare_label_pulls_more_than_one_that_shares_a_frequent_one(
    pair_frequency: str, name: str, rare: int, more: int, extra: int
) -> None:
    train = torch.tensor([[1, 0, 0]] * rare + [[0, 1, 0]] * (rare + more) + [[0, 0, 1]])
    loss = make(name, train, pair_frequency=pair_frequency)
    partners = torch.tensor([[1.0, 0, extra], [0, 1, extra]], dtype=torch.float64)
    gamma = pair_influence(loss, torch.tensor([[1.0, 1, 0]], dtype=torch.float64), partners)
    assert gamma[0, 0] > gamma[0, 1]


# ---- Gradients in closed form --------------------------------------------------------------------


def gradient_of(dL_ds: Tensor, z: Tensor) -> Tensor:
    """The gradient of z that belongs to dL/ds_ia, s the cosines of the rows of z. (B, B) -> (B, D)"""
    u = z / z.norm(dim=1, keepdim=True)
    (gradient,) = torch.autograd.grad((dL_ds.detach() * (u @ u.T)).sum(), z)
    return gradient


def marc_gradient(z: Tensor, y: Tensor, options: loops.Marc, repulsion: str) -> Tensor:
    """MARC's dL/ds_ia = (factor_i p_ia - W_ia) / T_ia over the number of valid (i, k). (B, B)

    W_ip = w_ip sum over shared k of 1/|P_k(i)|. The factor is sum_k 1/|P_k(i)| sum_p w_ip; the paper
    prints |y_i|.
    """
    batch = loops.make_batch(z.detach(), loops.label_sets(y))
    dL_ds = torch.zeros(len(y), len(y), dtype=torch.float64)
    valid = 0
    for i, y_i in enumerate(batch.y):
        P = {k: batch.having(i, k) for k in y_i if batch.having(i, k)}
        valid += len(P)
        if not P:
            continue
        w = {p: options.w(y_i, batch.u[p]) for p in batch.sharing(i)}
        T = {a: options.T(y_i, batch.u[a]) for a in batch.others(i)}
        corrected = sum(sum(w[p] for p in P_k) / len(P_k) for P_k in P.values())
        factor = {"corrected": corrected, "as printed": len(y_i)}[repulsion]
        for a, log_p in loops.log_softmax(batch, i, T).items():
            W = sum(w[a] / len(P_k) for P_k in P.values() if a in P_k)
            dL_ds[i, a] = (factor * log_p.exp() - W) / T[a]
    return dL_ds / max(1, valid)


MARC_OPTIONS = [{}, {"tau_mode": "scale"}, {"plr": False}, {"dts": False}, {"frequency": "relative"}]


@settings(max_examples=8)
@given(y=label_matrices(most=6), train=label_matrices(least=1), seed=SEEDS)
@pytest.mark.parametrize("options", MARC_OPTIONS, ids=str)
def test_marcs_gradient_is_the_corrected_one(
    options: dict[str, Any], y: Tensor, train: Tensor, seed: int
) -> None:
    z = normal(seed, len(y), D)
    _, found = value_and_gradient(make("marc", train, **options), z, y)
    dL_ds = marc_gradient(z, y, loops.Marc(loops.label_sets(train), **options), "corrected")
    assert_equal((found,), (gradient_of(dL_ds, z),))


def test_marcs_gradient_is_not_the_printed_one() -> None:
    z, y = golden.embeddings().requires_grad_(), golden.labels()
    _, found = value_and_gradient(make("marc", golden.training_labels()), z, y)
    options = loops.Marc(loops.label_sets(golden.training_labels()))
    corrected = gradient_of(marc_gradient(z, y, options, "corrected"), z)
    printed = gradient_of(marc_gradient(z, y, options, "as printed"), z)
    assert (found - corrected).abs().max() < 1e-12
    assert (found - printed).abs().max() > 1e-2


def test_the_printed_gradient_holds_where_the_mean_weight_is_one() -> None:
    # Every label of every row has a partner, and no pair is weighed.
    z, y = golden.embeddings()[:4].requires_grad_(), golden.multi_hot(("1010", "1010", "0110", "1110"))
    options = loops.Marc(loops.label_sets(y), plr=False)
    _, found = value_and_gradient(make("marc", y, plr=False), z, y)
    assert_equal((found,), (gradient_of(marc_gradient(z, y, options, "as printed"), z),))


@settings(max_examples=8)
@given(y=label_matrices(least=1, most=6, labels=3), seed=SEEDS)
@pytest.mark.parametrize("a", [0.0, 1.0, -1.0])
def test_lregs_gradient_never_pushes_a_positive_pair_apart(a: float, y: Tensor, seed: int) -> None:
    """dL/d(s_ij/tau) = min(p_ij - w_ij, 0)/M where w_ij > 0, p_ij/M elsewhere."""
    tau = 0.3
    loss = make("lreg", y, overlap_power=a, tau=tau)
    z = normal(seed, len(y), D)
    value = loss(z, y)
    found = torch.autograd.grad(value, [z, loss.prototypes])
    points = torch.cat([z, loss.prototypes]).detach().requires_grad_()
    V = loops.with_prototypes(loops.make_batch(z, loops.label_sets(y)), loss.prototypes)
    dL_ds = torch.zeros(len(points), len(points), dtype=torch.float64)
    weights = [loops.overlap_weights(V, i, a) for i in range(len(points))]
    for i, w in enumerate(weights):
        for j, log_p in loops.log_p(V, i, tau).items() if w else ():
            p = log_p.detach().exp()
            dL_ds[i, j] = torch.clamp(p - w[j], max=0.0) if j in w else p
    dL_ds /= tau * max(1, sum(bool(w) for w in weights))
    assert_equal((torch.cat(found),), (gradient_of(dL_ds, points),))


@EXAMPLES
@given(y=label_matrices(), seed=SEEDS, tau=TAUS)
def test_sim_dis_inside_has_the_gradient_of_supcon_any(y: Tensor, seed: int, tau: float) -> None:
    z = normal(seed, len(y), D)
    value, gradient = value_and_gradient(make("sim-dis", y, tau=tau, placement="inside"), z, y)
    value_any, gradient_any = value_and_gradient(make("supcon-any", y, tau=tau), z, y)
    assert_equal((gradient,), (gradient_any,))
    assert value >= value_any - 1e-9
