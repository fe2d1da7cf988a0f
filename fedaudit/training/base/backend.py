"""Identify what computed a run: figures agree to the last bit only on one backend."""

import platform

import torch

from fedaudit.native.library import kernels


def backend(device: str = "cpu") -> dict[str, str]:
    """The torch build, the device, the processor's vector instructions, and whether the compiled
    kernels or the fallback did what either can."""
    name = platform.machine()
    if torch.device(device).type == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
    return {
        "torch": torch.__version__,
        "device_type": torch.device(device).type,
        "device_name": name,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": "fallback" if kernels() is None else "compiled",
    }
