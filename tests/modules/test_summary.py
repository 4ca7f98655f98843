from __future__ import annotations

import warnings

import pytest
import torch

import drivetrain as dt
from drivetrain.modules.summary import human, shape_of, table
from tests.loops.models import Regression


class Tied(dt.Module):
    """A parameter of its own, a layer that is used twice, a frozen one, and numbers of several formats."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.embed = torch.nn.Embedding(10, 4)
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
        self.head = torch.nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.body.half().requires_grad_(False).eval()

    def forward(self, tokens, scale=1.0):
        return self.head(self.embed(tokens) * scale)


def test_parameters_count_once_in_the_totals_and_in_their_own_format() -> None:
    found = dt.summarize(Tied())
    assert found.layer_names == ["embed", "body", "head", "other params"]
    assert found.layer_types == ["Embedding", "Sequential", "Linear", "n/a"]
    assert found.param_nums == [40, 20, 40, 3]
    assert (found.total_parameters, found.trainable_parameters, found.num_shared) == (63, 43, 40)
    assert found.model_bytes == 43 * 4 + 20 * 2
    assert found.total_training_modules == {"train": 2, "eval": 3}
    assert found.training_modes == [True, False, True, False]
    assert "40 params are in several rows; the totals count them once" in str(found)


def test_depth_says_which_layers_have_a_row() -> None:
    assert dt.summarize(Regression(), 0).layers == ()
    assert dt.summarize(Regression(), 1).layer_names == ["net"]
    assert dt.summarize(Regression(), -1).layer_names == ["net", "net.0", "net.1", "net.2", "net.3"]
    assert dt.summarize(Tied(), 2).num_shared == 40
    assert str(dt.summarize(Regression(), 0)).splitlines()[0].split() == ["49", "Trainable", "params"]
    for wrong in (-2, True, "full", 1.0):
        with pytest.raises(dt.ModuleError, match=r"module.summary-depth\].*max_depth cannot be"):
            dt.summarize(Regression(), wrong)


def test_an_example_gives_sizes_and_operations_and_leaves_no_trace() -> None:
    module = Regression(dropout=0.5)
    module.example_input_array = torch.zeros(6, 4)
    module.net[1].eval()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    found = dt.summarize(module, -1)
    assert torch.equal(torch.get_rng_state(), before)
    assert [part.training for part in module.net] == [True, False, True, True]
    assert all(parameter.grad is None for parameter in module.parameters())
    assert found.in_sizes == [[6, 4], [6, 4], [6, 8], [6, 8], [6, 8]]
    assert found.out_sizes[0] == [6, 1]
    products = 2 * 6 * 4 * 8 + 2 * 6 * 8 * 1
    assert found.total_flops == products
    assert found.flop_counts == {"net": products, "net.0": 384, "net.1": 0, "net.2": 0, "net.3": 96}
    assert "| [6, 4]   | [6, 1]" in str(found)
    assert not module.net[0]._forward_hooks


@pytest.mark.parametrize(
    "example",
    [
        (torch.zeros(2, dtype=torch.long), 2.0),
        {"tokens": torch.zeros(2, dtype=torch.long), "scale": 2.0},
        torch.zeros(2, dtype=torch.long),
    ],
)
def test_an_example_is_a_tensor_or_the_arguments(example) -> None:
    module = Tied()
    module.example_input_array = example
    found = dt.summarize(module)
    assert dict(zip(found.layer_names, found.out_sizes, strict=True)) == {
        "embed": [2, 4],
        "body": "?",
        "head": [2, 10],
        "other params": "?",
    }


def test_an_example_that_does_not_fit_costs_a_line_and_not_the_run() -> None:
    module = Regression()
    module.example_input_array = torch.zeros(6, 5)
    found = dt.summarize(module)
    assert (found.has_example, found.in_sizes, module.net.training) == (False, ["?"], True)
    assert "no sizes: example_input_array cannot be run: RuntimeError: mat1 and mat2" in str(found)


def test_lazy_parameters_are_said_and_stay_lazy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = Regression()
        module.net.append(torch.nn.LazyLinear(3))
    module.example_input_array = torch.zeros(6, 4)
    found = dt.summarize(module, 2)
    assert [cells for title, cells in found.columns() if title == "Params"] == [
        ["49 + ?", "40", "0", "0", "9", "?"]
    ]
    assert (found.total_parameters, found.num_lazy) == (49, 2)
    assert "2 lazy params" in str(found)
    assert torch.nn.parameter.is_lazy(module.net[4].weight)


def test_nothing_that_forward_logs_is_kept() -> None:
    class Logs(Regression):
        def forward(self, x):
            self.log("seen", x.mean())
            return super().forward(x)

    class Keeps:
        def log(self, name, value, options):
            raise AssertionError(name)

    module = Logs()
    module.example_input_array, module._recorder = torch.zeros(6, 4), Keeps()
    assert dt.summarize(module).has_example
    assert isinstance(module._recorder, Keeps)


def test_a_scripted_part_is_a_row() -> None:
    module = Regression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.net = torch.jit.script(torch.nn.Linear(4, 1))
    module.example_input_array = torch.zeros(6, 4)
    found = dt.summarize(module)
    assert (found.layer_types, found.param_nums, found.has_example) == (["Linear"], [5], True)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0 K"),
        (999_999, "1.0 M"),
        (1_234_567, "1.2 M"),
        (10**16, "10,000.0 T"),
    ],
)
def test_counts_are_short(number: int, text: str) -> None:
    assert human(number) == text


def test_shapes_of_nested_values() -> None:
    x = torch.zeros(2, 3)
    assert shape_of((x, {"a": x, "b": (x, 1)})) == [[2, 3], [[2, 3], [[2, 3], "?"]]]
    assert (shape_of([x]), shape_of(()), shape_of(3)) == ([2, 3], "?", "?")


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert table([("a", ["1", "22"]), ("b", ["x", ""])], [("7", "seven")], ["note"]) == (
        "a  | b\n------\n1  | x\n22 |\n------\n7  seven\nnote"
    )
