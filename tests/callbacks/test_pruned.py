from __future__ import annotations

import torch
from torch.nn.utils import prune

from drivetrain.callbacks.pruned import Place, in_order, plain_state, pruned_places, settle


def names(layer: torch.nn.Module) -> list[str]:
    return [name for name, _ in layer.named_parameters()]


def test_parameters_stay_in_their_order_with_masks_and_without() -> None:
    layer = torch.nn.Linear(2, 2)
    places = [Place(layer, "weight"), Place(layer, "bias")]
    weight = layer.weight
    assert not places[0].is_pruned
    for _ in range(2):
        with in_order(places):
            prune.l1_unstructured(layer, "weight", 1)
        assert names(layer) == ["weight_orig", "bias"]
    assert places[0].is_pruned
    assert places[0].parameter is weight
    assert (places[0].density, places[1].density) == ((2, 4), (0, 2))
    assert pruned_places(torch.nn.Sequential(layer)) == places[:1]
    settle(places)
    assert names(layer) == ["weight", "bias"]
    assert layer.weight is weight
    assert int((weight == 0).sum()) == 2
    assert pruned_places(layer) == []


def test_a_tensor_is_made_of_what_is_there_now() -> None:
    layer = torch.nn.Linear(2, 1)
    prune.custom_from_mask(layer, "weight", torch.tensor([[1.0, 0.0]]))
    with torch.no_grad():
        layer.weight_orig.fill_(3.0)
    Place(layer, "weight").refresh()
    assert layer.weight.tolist() == [[3.0, 0.0]]


def test_a_state_is_plain_and_others_names_are_left_alone() -> None:
    layer = torch.nn.Linear(2, 1)
    layer.register_buffer("own_orig", torch.ones(1))
    layer.register_buffer("own_mask", torch.zeros(1))
    expected = layer.state_dict()
    prune.custom_from_mask(layer, "weight", torch.tensor([[1.0, 0.0]]))
    found = plain_state(layer.state_dict(), ["weight"])
    assert {*found} == {*expected} == {"weight", "bias", "own_orig", "own_mask"}
    assert found["weight"].tolist() == [[layer.weight_orig[0, 0].item(), 0.0]]
