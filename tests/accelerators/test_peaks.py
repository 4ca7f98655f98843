from __future__ import annotations

import pytest

from drivetrain.accelerators.peaks import peak


@pytest.mark.parametrize(
    ("name", "number", "tera"),
    [
        ("NVIDIA H200", "bfloat16", 989.5),
        ("NVIDIA H200 NVL", "bfloat16", 835.5),
        ("NVIDIA H100 80GB HBM3", "tf32", 494.5),
        ("NVIDIA H100 PCIe", "float16", 756),
        ("NVIDIA A100-SXM4-80GB", "bfloat16", 312),
        ("NVIDIA A100 80GB PCIe", "float32", 19.5),
        ("Tesla V100-SXM2-16GB", "float16", 125),
        ("Tesla V100-PCIE-16GB", "float16", 112),
        ("Tesla V100-SXM2-16GB", "bfloat16", None),
        ("NVIDIA L40S", "bfloat16", 362),
        ("NVIDIA L4", "bfloat16", 121),
        ("NVIDIA A10G", "bfloat16", None),
        ("NVIDIA GeForce RTX 4090", "bfloat16", 165.2),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bfloat16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bfloat16", None),
        ("AMD Instinct MI300X", "bfloat16", 1307.4),
        ("Some Other GPU", "float32", None),
    ],
)
def test_a_peak_is_that_of_the_board(name: str, number: str, tera: float | None) -> None:
    assert peak(name, number) == (None if tera is None else pytest.approx(tera * 1e12))
