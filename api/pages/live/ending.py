"""Why an experiment has no report, and what to do about it, in words."""

_WHY = {
    "worker-lost": (
        "Its workers were lost, again and again.",
        "Retry it. Where that repeats itself, look for workers that run out of memory.",
    ),
    "worker-error": (
        "A worker failed on it.",
        "The worker's log has the whole story. Retry it once the cause is repaired.",
    ),
    "invalid-data": (
        "The data could not be used with this spec.",
        "Correct the data or the spec, and submit it again.",
    ),
    "diverged": (
        "Training diverged: a loss was no longer a finite number.",
        "Lower training.local.step_size, scale the features, or ask for less noise.",
    ),
    "figures-disagree": (
        "Its fairness figures, computed a second time from the rows, came out differently.",
        "Nothing was published. Please report it, with the attribute and the figure named here.",
    ),
    "budget-exhausted": (
        "The federation's budget had no room left while it ran.",
        "Raise the budget, or ask for fewer rounds or more noise.",
    ),
    "cancelled-by-caller": (
        "Somebody asked for its end.",
        "What it had spent stays spent. Retry queues the same spec once more.",
    ),
}


def why_ended(reason: str | None) -> tuple[str, str]:
    """What happened, and the remedy, for the status_reason of a failure or a cancellation."""
    return _WHY.get(reason or "", (f"It ended: {reason or 'no reason was stored'}.", ""))
