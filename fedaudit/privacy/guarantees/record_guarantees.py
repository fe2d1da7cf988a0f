"""What is told of a guarantee for every record, each with a budget of its own."""

from typing import assert_never

from fedaudit.privacy.guarantees.guarantee import number
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised


def what_follows_from_the_seed(spec: ExperimentSpec) -> list[str]:
    """Why data that differ by a record make training sets that differ by it at most."""
    source = spec.federation
    drawn = {
        "whether it trains or is held out": source.holds_out_rows,
        "its budget": spec.privacy.budget_column is None,
    }
    what = " and ".join(name for name, follows in drawn.items() if follows)
    found = []
    if what:
        found.append(
            f"Of each record, {what} is drawn by the seed and the record itself, so that no other "
            "record changes by its being there. The seed is public: whoever knows it and a record "
            "knows what was drawn for it."
        )
    if source.traits.deals_rows:
        found.append(
            "Rows were dealt to clients by their place (`partition`), which one more record does "
            "anew: with which client the other records lie is taken as fixed."
        )
    return found


def what_the_server_sees(rate: float) -> str:
    """Against the server too, for a client's chance in a round."""
    if rate == 1:
        return (
            "All clients take part in every round, which is no secret, so both observers have the "
            "same figure."
        )
    return (
        "It sees which clients take part, and its figure counts in full the rounds of the client "
        "that came most, so it is larger in the worst case and may be smaller after a run. "
        "`final_model` is for those who do not see that, whom the clients' coins of chance "
        f"{number(rate)} leave in doubt."
    )


def how_budgets_are_kept(privacy: RecordPersonalised, rate: float) -> str:
    """Against whom, and whether always. Raises ValueError without noise."""
    match privacy.baseline:
        case "uniform":
            return (
                f"Every record spends up to {number(privacy.uniform_epsilon)} against "
                "`final_model`, whatever its own budget."
            )
        case "privacy-free":
            raise ValueError("without noise no budget is kept")
        case None:
            if privacy.inversion == "curve-fit":
                return "Budgets are aimed at, against `final_model`, and not always kept."
        case "strong-for-all" | "dropout" | "filter":
            pass
        case other:
            assert_never(other)
    if rate == 1:
        return "Budgets are kept against both."
    return (
        "Budgets are kept against `final_model`; the server may see more spent than a budget says."
    )
