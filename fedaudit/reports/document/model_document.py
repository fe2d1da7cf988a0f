"""The part of the report document about the file with the trained hypotheses."""

from fedaudit.reports.document.part import Part


class TensorSection(Part):
    """One tensor of the file."""

    name: str
    shape: list[int]


class ModelSection(Part):
    """The safetensors file with the trained hypotheses, as it may leave."""

    sha256: str
    """Of the whole file, in hexadecimal."""
    size_bytes: int
    round: int
    """After which the hypotheses are kept: the best one, or the last with `fairness.noise`."""
    hypotheses: int
    tensors: list[TensorSection]
