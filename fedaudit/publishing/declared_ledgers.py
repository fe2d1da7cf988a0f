"""What is published of a declared ledger: every figure under a name that says whose word it is."""

from collections.abc import Mapping
from typing import Any

from fedaudit.number_text import at_most
from fedaudit.reports.declared.tested_noise import status_of
from fedaudit.reports.verdict.cost import epsilon_words

_COUNTS = {
    "participation": ("privacy", "participations_max", "over_budget"),
    "ledger": ("ledger", "rounds", "missing_rounds", "unreserved_rounds", "refused_rounds"),
}


def declared_figures(document: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a ledger's report that exist, by name. Names have `declared` in them,
    `declared_contradicted` where canaries contradict what was declared, or it does itself, and
    `conditional` where gates want an exception for that too."""
    refuted = document["contradictions"] or status_of(document) == "contradicted"
    mark = "declared_contradicted" if refuted else "declared"
    privacy, conditions = document["privacy"], document["guarantee"]["conditions"]
    found = {}
    for name in ("epsilon_max", "leakage_max", "leakage_median", "log_ratio_max"):
        heading = f"privacy_{mark}{'_conditional' if name in conditions else ''}"
        found[f"{heading}/{name}"] = privacy[name]
    for heading, (section, *names) in _COUNTS.items():
        found |= {f"{heading}_{mark}/{name}": document[section][name] for name in names}
    for gaps in document["fairness"]:
        for name, gap in gaps["metrics"].items():
            found[f"fairness_{mark}/{gaps['attribute']}/{name}"] = gap["value"]
    return {name: value for name, value in found.items() if value is not None}


def declared_facts(document: Mapping[str, Any]) -> dict[str, str]:
    """The context of these figures, by name."""
    privacy, answer = document["privacy"], document["answer"]
    useless = document["utility"]["reasons"].get("degenerate")
    cost = "no finite number bounds what the rounds reveal"
    if privacy["epsilon"]:
        cost = epsilon_words(document)
    elif privacy["leakage_max"] is not None:
        cost = f"a leakage, which is no epsilon, of {at_most(privacy['leakage_max'], digits=4)}"
    return {
        "answer": f"{answer['outcome']}: {'; '.join(one['text'] for one in answer['reasons'])}",
        "terms_hash": document["ledger"]["terms_hash"],
        "privacy_cost": f"as declared, and not observed: {cost}",
        "model_decides": "as declared" if useless is None else f"not shown: {useless}",
    }
