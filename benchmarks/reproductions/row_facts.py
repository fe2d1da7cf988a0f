"""What a row of a sweep is called in the papers, and what they print for it."""

from collections.abc import Mapping
from typing import Any

from benchmarks.reproductions.kept_sweeps import KeptRow
from benchmarks.reproductions.published_figures import HOSPITAL_LEAKAGE, RECORD_ACCURACY

HYPOTHESES, PATIENCE = "training.hypotheses", "training.stopping.patience"
PARTITION = "federation.partition"
_CLUSTERING = "training.clustering"
_DISTRIBUTION, _BASELINE = "privacy.budgets.distribution", "privacy.baseline"
_THREE_LEVELS = "three-levels"

_METHODS = {(1, "k-means keep"): "federated averaging", (2, "reported"): "IFCA"}
_PRINTED_HYPOTHESES = (7, 5, 3, 1)
_RECORD_COLUMNS = {None: 0, "iid": 1, "shards": 2}


def noise_of(row: KeptRow) -> float:
    """The noise multiplier; 0 without a mechanism, as the papers write it."""
    privacy = row["values"]["privacy"]
    return float(privacy.get("noise_multiplier", 0))


def synthetic_method(values: Mapping[str, Any]) -> str:
    """The method that a cell or a row of the synthetic task is."""
    clustering = " ".join(values[_CLUSTERING].values())
    return _METHODS.get((values[HYPOTHESES], clustering), f"Algorithm 1, {clustering}")


def published_leakage(row: KeptRow) -> Mapping[str, float]:
    """Table 1 for this number of hypotheses and this noise, by the figure's name; empty without
    noise."""
    printed = HOSPITAL_LEAKAGE.get(noise_of(row))
    if printed is None:
        return {}
    median, maximum = printed[_PRINTED_HYPOTHESES.index(row["values"][HYPOTHESES])]
    return {"leakage_median": median, "leakage_max": maximum}


def record_method(row: KeptRow) -> str:
    """rPDP-FL, or what it is compared with."""
    return row["values"][_BASELINE] or "rPDP-FL"


def record_budgets(row: KeptRow) -> str:
    """How the records' budgets are distributed."""
    found: str = row["values"].get(_DISTRIBUTION, _THREE_LEVELS)
    return found


def partition_of(row: KeptRow) -> str | None:
    """How rows are dealt to clients; None where they belong to them."""
    partition = row["values"].get(PARTITION)
    return None if partition is None else partition["method"]


def published_record_accuracy(row: KeptRow) -> float | None:
    """Liu et al.'s accuracy for this method, these budgets and this partition, if they have it."""
    printed = RECORD_ACCURACY.get((row["values"][_BASELINE], record_budgets(row)))
    return None if printed is None else printed[_RECORD_COLUMNS[partition_of(row)]]
