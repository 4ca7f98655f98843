"""How many operations a second GPUs are promised to do, by their makers' data sheets.

Matrix products without sparsity, with accumulation in float32, in the boards' full configuration; where
a sheet only tells the number with sparsity, half of it stands here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TERA = 1e12
_WORDS = re.compile(r"[a-z0-9.]+")
_LESS = {"laptop", "mig", "max"}
"""Words in the names of devices that do less than the board that they are named after."""

_PEAKS: dict[str, Mapping[str, float]] = {
    # NVIDIA HGX B200, per GPU.
    "b200": {"float32": 75, "tf32": 1100, "bfloat16": 2250, "float16": 2250},
    # NVIDIA H200 Tensor Core GPU: SXM, NVL. GH200 holds the H200's or H100's.
    "h200 nvl": {"float64": 60, "float32": 60, "tf32": 417.5, "bfloat16": 835.5, "float16": 835.5},
    "h200": {"float64": 67, "float32": 67, "tf32": 494.5, "bfloat16": 989.5, "float16": 989.5},
    # NVIDIA H100 Tensor Core GPU: NVL, PCIe, SXM.
    "h100 nvl": {"float64": 60, "float32": 60, "tf32": 417.5, "bfloat16": 835.5, "float16": 835.5},
    "h100 pcie": {"float64": 51, "float32": 51, "tf32": 378, "bfloat16": 756, "float16": 756},
    "h100": {"float64": 67, "float32": 67, "tf32": 494.5, "bfloat16": 989.5, "float16": 989.5},
    "gh200": {"float64": 67, "float32": 67, "tf32": 494.5, "bfloat16": 989.5, "float16": 989.5},
    # NVIDIA A100 Tensor Core GPU, 40 and 80 GB, PCIe and SXM alike.
    "a100": {"float64": 19.5, "float32": 19.5, "tf32": 156, "bfloat16": 312, "float16": 312},
    # NVIDIA A40, A30, A10.
    "a40": {"float32": 37.4, "tf32": 74.8, "bfloat16": 149.7, "float16": 149.7},
    "a30": {"float64": 10.3, "float32": 10.3, "tf32": 82, "bfloat16": 165, "float16": 165},
    "a10": {"float32": 31.2, "tf32": 62.5, "bfloat16": 125, "float16": 125},
    # NVIDIA L40S, L40, L4.
    "l40s": {"float32": 91.6, "tf32": 183, "bfloat16": 362, "float16": 362},
    "l40": {"float32": 90.5, "tf32": 90.5, "bfloat16": 181, "float16": 181},
    "l4": {"float32": 30.3, "tf32": 60, "bfloat16": 121, "float16": 121},
    # NVIDIA V100: SXM2, PCIe; T4.
    "v100 sxm2": {"float64": 7.8, "float32": 15.7, "float16": 125},
    "v100": {"float64": 7, "float32": 14, "float16": 112},
    "t4": {"float32": 8.1, "float16": 65},
    # NVIDIA Ada and Ampere GPU architecture white papers, appendices on GeForce.
    "rtx 4090": {"float32": 82.6, "tf32": 82.6, "bfloat16": 165.2, "float16": 165.2},
    "rtx 3090": {"float32": 35.6, "tf32": 35.6, "bfloat16": 71, "float16": 71},
    # AMD Instinct MI325X, MI300X and MI250X data sheets; an MI250X shows as two devices of half of it each.
    "mi325x": {"float64": 163.4, "float32": 163.4, "tf32": 653.7, "bfloat16": 1307.4, "float16": 1307.4},
    "mi300x": {"float64": 163.4, "float32": 163.4, "tf32": 653.7, "bfloat16": 1307.4, "float16": 1307.4},
    "mi250x": {"float64": 47.85, "float32": 47.85, "bfloat16": 191.5, "float16": 191.5},
}
"""Tera-operations a second, by words of the device's name (the first that fits counts) and by format."""


def peak(name: str, number: str) -> float | None:
    """Return the operations a second of the GPU with this name, or None where the table lacks it."""
    words = _WORDS.findall(name.lower())
    if _LESS.intersection(words):
        return None
    text = f" {' '.join(words)} "
    found = next((numbers for known, numbers in _PEAKS.items() if f" {known} " in text), {}).get(number)
    return None if found is None else found * _TERA
