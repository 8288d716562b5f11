"""Backbones and their weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from marcir.errors import ConfigError
from marcir.model.backbone import create_backbone
from marcir.torchvision_shim import timm


def saved(path: Path, name: str = "resnet18", **options: object) -> Path:
    """Weights of a fresh network, with its classifier, as timm would save them."""
    torch.manual_seed(7)
    network = timm.create_model(name, **options)
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, path)
    return path


def test_features_are_what_the_network_gives_not_what_it_says() -> None:
    backbone = create_backbone("mobilenetv3_small_100", 3, 32)
    assert backbone.num_features == backbone.network.eval()(torch.zeros(1, 3, 32, 32)).shape[1] == 1024


def test_means_come_from_the_backbones_own_configuration() -> None:
    assert create_backbone("tf_efficientnet_lite0", 3, 32).mean == (0.5, 0.5, 0.5)
    assert create_backbone("resnet18", 3, 32).mean == pytest.approx((0.485, 0.456, 0.406))


def test_a_backbone_for_one_size_is_made_for_the_size_that_is_wanted() -> None:
    backbone = create_backbone("vit_tiny_patch16_224", 3, 64)
    assert backbone.network(torch.zeros(2, 3, 64, 64)).shape == (2, backbone.num_features)


def test_weights_of_a_file_are_loaded_without_their_classifier(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.safetensors")
    torch.manual_seed(7)
    wanted = timm.create_model("resnet18").state_dict()
    found = create_backbone("resnet18", 3, 32, str(file)).network.state_dict()
    assert all(torch.equal(found[key], wanted[key]) for key in found)


def test_the_first_layer_is_fitted_to_the_bands(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.safetensors")
    network = create_backbone("resnet18", 5, 32, str(file)).network
    assert network.get_parameter("conv1.weight").shape[1] == 5
    three = create_backbone("resnet18", 3, 32, str(file)).network.get_parameter("conv1.weight")
    torch.testing.assert_close(network.get_parameter("conv1.weight"), three[:, [0, 1, 2, 0, 1]] * 3 / 5)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda path: path, "there is no such file"),
        (lambda path: path.write_bytes(b"PK") and path, "not a safetensors file"),
        (lambda path: saved(path, "resnet34"), "has more: layer1.2.bn1.bias.* They fit .* resnet34"),
        (
            lambda path: saved(path, "mobilenetv3_small_100"),
            "lacks conv1.weight.* fit .* mobilenetv3_small_100",
        ),
    ],
    ids=["missing", "something else", "larger", "other"],
)
def test_weights_that_do_not_fit_are_refused_with_what_is_wrong(
    made: object, said: str, tmp_path: Path
) -> None:
    file = made(tmp_path / "w.safetensors")  # type: ignore[operator]
    with pytest.raises(ConfigError, match=said) as caught:
        create_backbone("resnet18", 3, 32, str(file))
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_name_of_a_file_tells_which_backbone_its_weights_fit(tmp_path: Path) -> None:
    file = saved(tmp_path / "my-resnet10t.safetensors", "resnet10t", in_chans=5)
    with pytest.raises(ConfigError, match=r"They fit --encoder\.backbone resnet10t\."):
        create_backbone("resnet18", 3, 32, str(file))


def test_an_unknown_backbone_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"timm has no 'resnt18'\. Did you mean 'resnet18'\?"):
        create_backbone("resnt18", 3, 32)
