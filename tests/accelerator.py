"""Where tests of tensors run: `FEDAUDIT_TEST_DEVICE=cuda:0`, which `make test-gpu` sets, names a
GPU."""

import os

GPU = os.environ.get("FEDAUDIT_TEST_DEVICE")
"""None where no GPU is asked for."""
DEVICE = GPU or "cpu"
