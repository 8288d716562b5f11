"""The encoder, and its batch-norm statistics."""

import torch
from torch import nn

from marcir.model.backbone import Backbone
from marcir.model.batch_norm import reestimate_batch_norm, statistics_fit
from marcir.model.encoder import Encoder


def small(embedding: str = "projection", bands: int = 3) -> Encoder:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(bands, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Encoder(Backbone(network, 6, (0.0,), (1.0,)), 4, embedding, (0.5,) * bands, (0.25,) * bands)  # type: ignore[arg-type]


def test_embeddings_have_unit_length_and_the_size_that_was_asked_for() -> None:
    z = small()(torch.rand(5, 3, 9, 9))
    assert z.shape == (5, 4)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(5))


def test_the_head_is_linear_relu_linear_as_wide_as_the_backbone() -> None:
    head = small().head
    assert [type(layer) for layer in head] == [nn.Linear, nn.ReLU, nn.Linear]
    assert (head[0].in_features, head[0].out_features, head[2].out_features) == (6, 6, 4)


def test_the_backbones_features_can_be_compared_instead() -> None:
    encoder = small("backbone").eval()
    images = torch.rand(2, 3, 9, 9)
    features = encoder.backbone((images - 0.5) / 0.25)
    torch.testing.assert_close(encoder.embed(images), nn.functional.normalize(features, dim=1))
    assert (encoder.dim, encoder.embed(images).shape[1]) == (6, 6)


def test_means_are_no_weights_so_that_files_hold_the_network_alone() -> None:
    assert not {"mean", "std"} & small().state_dict().keys()


def test_statistics_are_those_of_all_images_and_nothing_else_changes() -> None:
    encoder = small()
    norm = encoder.backbone[1]
    norm.running_mean.fill_(9.0)
    weights = {name: value.clone() for name, value in encoder.named_parameters()}
    images = torch.rand(12, 3, 9, 9)
    encoder.train()
    reestimate_batch_norm(encoder.backbone, images.split(4))
    inputs = encoder.backbone[0](images)
    torch.testing.assert_close(norm.running_mean, inputs.mean((0, 2, 3)))
    parts = torch.stack([part.var((0, 2, 3)) for part in inputs.split(4)])
    torch.testing.assert_close(norm.running_var, parts.mean(0))
    assert (norm.momentum, norm.training, encoder.training) == (0.1, True, True)
    assert all(torch.equal(value, weights[name]) for name, value in encoder.named_parameters())


def test_a_network_without_batch_norm_is_left_alone() -> None:
    reestimate_batch_norm(nn.Linear(2, 2), [])


def test_statistics_of_other_images_are_noticed_and_nothing_is_changed() -> None:
    encoder = small().train()
    images = torch.rand(12, 3, 9, 9)
    encoder.fit_batch_norm([images])
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    assert encoder.batch_norm_fits(images)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert encoder.training
    assert encoder.backbone[1].training
    encoder.backbone[1].running_mean += 3 * encoder.backbone[1].running_var.sqrt()
    assert not encoder.batch_norm_fits(images)


def test_a_network_without_batch_norm_has_no_statistics_that_could_be_wrong() -> None:
    assert statistics_fit(nn.Linear(2, 2), torch.ones(1, 2))
