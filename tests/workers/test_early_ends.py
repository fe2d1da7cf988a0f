"""Runs that validation losses ended: lists and tables have the epsilon of all planned rounds."""

from tests.api.service import Api, body_of, spec
from tests.spec.documents import gaussian
from tests.workers.serving import work

EARLY = {
    **spec(
        training={
            "hypotheses": 1,
            "rounds": 40,
            "cohort": {"sampling": "poisson", "rate": 0.3},
            "stopping": {"patience": 1},
        },
        gates=[],
    ),
    "privacy": gaussian("central", 2.0),
}


def test_what_losses_ended_is_listed_by_what_is_proven(api: Api) -> None:
    base = {name: value for name, value in EARLY.items() if name != "seed"}
    asked = {"name": "early", "base": base, "grid": {"seed": [1, 2]}}
    made = body_of(api.post("/v1/sweeps", json=asked), 202)
    ids = [cell["experiment_id"] for cell in made["cells"]]
    spent, proven = [], []
    for id_ in ids:
        if api.stored(id_).status == "queued":
            work(api, id_)
        privacy = body_of(api.get(f"/v1/experiments/{id_}/report"))["privacy"]
        spent.append(privacy["epsilon_max"])
        proven.append(privacy["epsilon_planned"])
    assert max(spent) < min(proven)
    listed = {"delta": 1e-5, "epsilon_max[lte]": max(spent)}
    for name in ("reports", "experiments"):
        assert body_of(api.get(f"/v1/{name}", params=listed))["items"] == []
        beyond = {**listed, "epsilon_max[lte]": max(proven)}
        assert len(body_of(api.get(f"/v1/{name}", params=beyond))["items"]) == 2
    table = body_of(api.get(f"/v1/sweeps/{made['id']}/table"))
    assert table["rows"][0]["figures"]["epsilon_max"]["mean"] == max(proven)
    text = api.get(f"/v1/sweeps/{made['id']}/table.md").text
    assert "are those of the seed that costs most" in text
