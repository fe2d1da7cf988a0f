"""One budget per content: whoever registers it, and whichever clients its rows are dealt to."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from models.repositories import Budgets
from tests.api.budgets.test_epsilon_budgets import DELTA, LOCAL
from tests.api.pages.browser import signed_in
from tests.api.service import Api, body_of
from tests.api.uploads import make_ready, registration, spec_of, upload
from tests.models.rows import at_once

EPSILON = {
    "book": "release",
    "figure": "epsilon",
    "delta": DELTA,
    "adjacency": "replace-one",
    "observer": "server",
}
COST = 2.0
"""What a run of `metric` leaks in the worst case."""
LEAKAGE = {"book": "release", "figure": "leakage", "radius": 0.5, "clip": 0.25}
SCOPES = ("experiments:read", "experiments:write", "federations:read", "federations:write")
ROWS = [
    f"c{client},t{client // 2},{'a' if client % 2 else 'b'},{client},{10 * row + client}"
    for client in range(40)
    for row in range(3)
]
CONTENT = "\n".join(["client,town,group,age,income", *ROWS, ""]).encode()
BY_CLIENT = {"client_key": "client", "features": ["age"]}
BY_TOWN = {"client_key": "town", "features": ["age"]}
PARTITION = {"client_key": None, "partition": {"method": "iid", "clients": 30}, "features": ["age"]}


def local(federation: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A gaussian-local run with secret noise on the table."""
    value = spec_of({"path": "incomes.csv", **federation}, gates=[], **changes)
    value["training"] = {**value["training"], "hypotheses": 1}
    return {**value, "privacy": {**LOCAL, "noise": "release"}}


def metric(federation: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A laplace-l2 run with secret noise on the table."""
    value = local(federation or BY_CLIENT, **changes)
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 4, "radius": 0.5, "clip": 0.25}
    return {**value, "privacy": {**privacy, "noise": "release"}}


class Project:
    """One of several projects of a service, with the same file below the sources folder."""

    def __init__(self, api: Api, name: str) -> None:
        api.put_source("incomes.csv", CONTENT)
        self.api, self.key = api, api.key_with(*SCOPES, project=name)
        self.federation_id = ""

    def register(self) -> "Project":
        self.federation_id = upload(self.api, CONTENT, key=self.key)["id"]
        make_ready(self.api, self.federation_id)
        return self

    def submit(self, value: dict[str, Any]) -> Any:
        answer = self.api.post("/v1/experiments", json=value, key=self.key)
        if answer.status_code == 202:
            self.federation_id = answer.json()["federation_id"]
        return answer

    def put(self, **setting: Any) -> Any:
        path = f"/v1/federations/{self.federation_id}/budget"
        return self.api.request("PUT", path, json=setting, key=self.key)

    def budgets(self, figure: str = "leakage") -> list[dict[str, Any]]:
        return self.api.budgets(self.federation_id, self.key, figure=figure)


def test_a_second_project_does_not_get_a_fresh_budget(api_on_both: Api) -> None:
    api = api_on_both
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    assert owner.put(**LEAKAGE, total=2 * COST).status_code == 200
    assert owner.submit(metric()).status_code == 202
    assert other.submit(metric()).status_code == 202
    for project in (owner, other, Project(api, "third")):
        assert body_of(project.submit(metric()), 409)["type"].endswith("/budget-exhausted")
        checked = api.check(metric(), key=project.key)
        assert checked.json()["budget"]["has_room"] is False
    [mine], [theirs] = owner.budgets(), other.budgets()
    for found in (mine, theirs):
        assert (found["reserved"], found["remaining"]) == (2 * COST, 0)
        assert found["others"] == {"reserved": COST, "spent": 0}
        assert "every project" in found["scope"]
    assert (mine["is_owner"], theirs["is_owner"]) == (True, False)


def test_epsilons_of_all_projects_are_composed(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other")
    assert owner.submit(local(BY_CLIENT)).status_code == 202
    [alone] = owner.budgets("epsilon")
    assert owner.put(**EPSILON, total=1.2 * alone["reserved"]).status_code == 200
    refused = other.submit(local(BY_CLIENT)).json()
    assert refused["type"].endswith("/budget-exhausted")
    assert "the project that owns this content" in refused["detail"]
    assert refused["composed_total"] > 1.2 * refused["requested"]
    assert owner.put(**EPSILON, total=2 * alone["reserved"]).status_code == 200
    assert other.submit(local(BY_CLIENT)).status_code == 202
    [mine], [theirs] = owner.budgets("epsilon"), other.budgets("epsilon")
    assert mine["reserved"] == theirs["reserved"] > alone["reserved"]
    assert mine["others"]["reserved"] == pytest.approx(alone["reserved"])


def test_only_the_owner_raises_a_total_and_a_stranger_may_be_stricter(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    assert owner.put(**LEAKAGE, total=3 * COST).status_code == 200
    raised = other.put(**LEAKAGE, total=9 * COST)
    assert (raised.status_code, raised.json()["type"].split("/")[-1]) == (409, "conflict")
    assert "another project" in raised.json()["detail"]
    assert other.put(**LEAKAGE, total=COST).status_code == 200
    [theirs] = other.budgets()
    assert (theirs["total"], theirs["own_total"]) == (COST, COST)
    # The stricter one holds for the stranger alone: it cannot stop the owner.
    [mine] = owner.budgets()
    assert mine["total"] == 3 * COST
    assert owner.submit(metric()).status_code == 202
    assert other.submit(metric()).status_code == 409
    # Its removal leaves the owner's.
    assert other.put(**LEAKAGE, total=None).status_code == 200
    assert other.budgets()[0]["total"] == 3 * COST


def test_what_the_owner_forbids_no_other_project_simulates(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    path = "/v1/federations/{}/simulation"
    forbidden = {"simulation": "forbidden"}
    simulated = metric()
    simulated["privacy"] = {**simulated["privacy"], "noise": "simulation"}
    # A stranger forbids it to itself alone.
    api.request("PUT", path.format(other.federation_id), json=forbidden, key=other.key)
    assert owner.submit(simulated).status_code == 202
    api.request("PUT", path.format(owner.federation_id), json=forbidden, key=owner.key)
    third = Project(api, "third")
    assert body_of(third.submit(simulated), 409)["type"].endswith("/simulation-forbidden")
    assert third.submit(metric()).status_code == 202


def test_who_sets_the_first_budget_owns_what_no_one_registered(api: Api) -> None:
    first, second = Project(api, "first"), Project(api, "second")
    for project in (first, second):
        assert project.submit(metric()).status_code == 202
    assert second.put(**LEAKAGE, total=2 * COST).status_code == 200
    first.register()
    assert [one["is_owner"] for one in second.budgets()] == [True]
    assert [one["is_owner"] for one in first.budgets()] == [False]
    assert first.submit(metric()).status_code == 409


def test_what_another_project_gives_back_is_room_again(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other")
    assert owner.put(**LEAKAGE, total=COST).status_code == 200
    taken = other.submit(metric()).json()
    assert owner.submit(metric()).status_code == 409
    api.post(f"/v1/experiments/{taken['id']}/cancel", key=other.key)
    assert owner.submit(metric()).status_code == 202


OWN = {"radius": 0.5, "clip": 0.25}
ELSEWHERE = {"mechanism": "laplace-l2", "metric": OWN, "population": 100}
ELSEWHERE |= {"name": "elsewhere", "unit": "client", "observer": "server"}
BY_EPSILON = {**ELSEWHERE, "mechanism": "gaussian-local", "delta": DELTA, "accountant": "rdp"}
BY_EPSILON |= {"metric": None, "adjacency": "replace-one"}


def training(project: Project, terms: dict[str, Any]) -> str:
    """The path of the rounds of a new ledger on the project's federation."""
    asked = {**terms, "federation_id": project.federation_id}
    made = body_of(project.api.post("/v1/ledgers", json=asked, key=project.key), 201)
    return f"/v1/ledgers/{made['id']}/rounds"


def asked(noise: float, kind: str = "laplace-l2") -> dict[str, Any]:
    own = {"n": 10, **OWN} if kind == "laplace-l2" else {}
    return {"event": {"kind": kind, "noise_multiplier": noise, **own}, "participants": ["a"]}


@pytest.mark.parametrize(
    ("terms", "total", "kind"),
    [(ELSEWHERE, LEAKAGE, "laplace-l2"), (BY_EPSILON, EPSILON, "gaussian")],
)
def test_what_strangers_declare_before_a_total_does_not_exhaust_it(api, terms, total, kind):
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    path, tiny, fair = training(other, terms), asked(1e-3, kind), asked(100.0, kind)

    def post(number: int, what: dict[str, Any], to: str = path) -> int:
        rounds = [{"round": number, **what}]
        status: int = api.post(to, json={"rounds": rounds}, key=other.key).status_code
        return status

    def counted() -> Any:
        [found] = owner.budgets(total["figure"])
        return found

    assert post(1, tiny) == 200
    assert counted()["spent"] > 1000
    for number in (2, 3):
        api.post(f"{path}/{number}/reservation", json=tiny, key=other.key)
    # A stranger's own total, and one of the other book, forget nothing.
    assert other.put(**total, total=1e9).status_code == 200
    assert owner.put(**{**total, "book": "simulation"}, total=6).status_code == 200
    assert owner.budgets(total["figure"])[0]["spent"] > 1000
    assert owner.put(**total, total=6).status_code == 200
    assert api.request("DELETE", f"{path}/3/reservation", key=other.key).status_code == 204
    assert [post(number, what) for number, what in ((2, tiny), (4, fair))] == [200, 409]
    found = next(one for one in owner.budgets(total["figure"]) if one["book"] == "release")
    assert (found["spent"], found["reserved"], found["remaining"]) == (0, 0, 6)
    [left_out] = [one for one in found["uncounted"] if one["mechanism"].endswith(", declared")]
    assert (left_out["runs"], "another project declared it" in left_out["why"]) == (1, True)
    # A ledger that is opened under the total is counted, also once the total is another.
    assert post(1, fair, training(other, terms)) == 200
    assert owner.put(**total, total=7).status_code == 200
    again = next(one for one in owner.budgets(total["figure"]) if one["book"] == "release")
    assert 0 < again["spent"] == again["others"]["spent"] < 6


def test_declared_rounds_of_another_project_exhaust_no_owners_total(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    assert owner.put(**LEAKAGE, total=3 * COST).status_code == 200
    assert owner.put(book="release", figure="log_ratio", total=1e6).status_code == 200
    path = training(other, ELSEWHERE)

    def post(number: int, noise: float) -> Any:
        rounds = [{"round": number, **asked(noise)}]
        return api.post(path, json={"rounds": rounds}, key=other.key)

    refused = body_of(post(1, 1e-3), 409)
    assert all(part in refused["detail"] for part in ("no room", "open a new ledger"))
    assert body_of(post(1, 10 / COST))["rounds"]
    [found] = owner.budgets()
    assert (found["spent"], found["others"]["spent"]) == (COST, COST)
    assert owner.submit(metric()).status_code == 202
    # What was reserved is entered, whatever became of the total since.
    answer = api.post(f"{path}/2/reservation", json=asked(10 / COST), key=other.key)
    assert body_of(answer)["reserved"]
    assert owner.put(**LEAKAGE, total=COST).status_code == 200
    assert [post(number, 10 / COST).status_code for number in (2, 3)] == [200, 409]


def test_two_projects_do_not_both_take_the_last_room(api_on_both, monkeypatch):
    api, both, refusal_of = api_on_both, Barrier(2), Budgets._refusal

    def together(*arguments: Any) -> Any:
        """Nothing is reserved before another has found its room, if it is let."""
        found = refusal_of(*arguments)
        with suppress(BrokenBarrierError):
            both.wait(timeout=0.5)
        return found

    monkeypatch.setattr(Budgets, "_refusal", together)
    owner = Project(api, "owner").register()
    projects = [owner, *(Project(api, f"project-{number}") for number in range(3))]
    # Of the clients' names there is a row already, which else one would wait for.
    assert owner.submit(metric()).status_code == 202
    assert owner.put(**LEAKAGE, total=2.5 * COST).status_code == 200
    answers = at_once(lambda i: projects[i].submit(metric()), len(projects))
    assert sorted(one.status_code for one in answers) == [202, 409, 409, 409]


def test_what_no_total_counts_is_listed_whoever_did_it(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "other").register()
    assert other.submit(local(BY_CLIENT)).status_code == 202
    # Another profile of the same content.
    fairness = {"sensitive": ["age"], "edges": {"age": [3]}}
    upload(api, CONTENT, registration(fairness=fairness), key=owner.key)
    make_ready(api, owner.federation_id)
    assert owner.put(**LEAKAGE, total=1e6).status_code == 200
    [found] = owner.budgets()
    run, profiles = found["uncounted"]
    assert (run["mechanism"], run["runs"]) == ("gaussian-local", 1)
    assert (profiles["mechanism"], profiles["runs"]) == ("profile", 3)
    assert "exact" in profiles["why"]
    # Profiles are of neither book, so a total of the other one does not count them either.
    assert owner.put(**LEAKAGE | {"book": "simulation"}, total=1e6).status_code == 200
    [simulated] = [one for one in owner.budgets() if one["book"] == "simulation"]
    assert simulated["uncounted"] == [profiles]


def test_the_page_says_whose_total_and_whose_spending_it_shows(api: Api) -> None:
    owner, other = Project(api, "owner").register(), Project(api, "hospital")
    assert owner.put(**LEAKAGE, total=9).status_code == 200
    for project in (owner, other):
        assert project.submit(metric()).status_code == 202
    text = signed_in(api).get(f"/federations/{other.federation_id}").text
    for words in (
        *("every project of this service", "Of other projects: 0 spent", "only it can raise it"),
        *("of clients by client", "1 profile:"),
    ):
        assert words in text


# -- whose client ----------------------------------------------------------------------------------


def test_clients_of_a_column_and_made_up_clients_are_not_composed(api: Api) -> None:
    """A person whose rows lie with several made-up clients spends more than is composed."""
    project = Project(api, "owner")
    assert project.submit(local(BY_CLIENT)).status_code == 202
    [alone] = project.budgets("epsilon")
    assert alone["unit_key"] == "client_key=client"
    assert project.put(**EPSILON, total=1e6).status_code == 200
    problem = body_of(project.submit(local(PARTITION)), 409)
    assert "clients by client" in problem["detail"]
    assert "partition" in problem["detail"]
    # Another seed deals the rows otherwise.
    assert project.put(**EPSILON, total=None).status_code == 200
    for seed in (1, 2, 2):
        assert project.submit(local(PARTITION, seed=seed)).status_code == 202
    by_key = {one["unit_key"]: one for one in project.budgets("epsilon")}
    assert by_key.pop("client_key=client")["reserved"] == alone["reserved"]
    assert [one.partition("=")[0] for one in by_key] == ["partition", "partition"]
    assert project.put(**EPSILON, total=1e6).status_code == 200
    [late] = project.budgets("epsilon")
    assert late["reserved"] == max(one["reserved"] for one in by_key.values())
    [left_out] = late["uncounted"]
    assert (left_out["mechanism"], left_out["runs"]) == ("gaussian-local", 2)
    assert "another key" in left_out["why"]


@pytest.mark.parametrize("figure", ["leakage", "log_ratio"])
def test_a_total_that_names_its_clients_refuses_all_others(api: Api, figure: str) -> None:
    project = Project(api, "owner").register()
    setting = LEAKAGE if figure == "leakage" else {"book": "release", "figure": figure}
    named = {**setting, "total": 1e6, "unit_key": "client_key=client"}
    assert project.put(**named).status_code == 200
    assert project.submit(metric()).status_code == 202
    by_town = metric(BY_TOWN)
    assert "'client_key=town'" in body_of(project.submit(by_town), 409)["detail"]
    assert project.put(**{**named, "unit_key": "client_key=town"}).status_code == 200
    assert project.submit(by_town).status_code == 202
    by_key = {one["unit_key"]: one for one in project.budgets(figure)}
    assert by_key.keys() == {"client_key=client", "client_key=town"}
    for one in by_key.values():
        assert one["total_names_clients"]
        assert [left["runs"] for left in one["uncounted"] if "another key" in left["why"]] == [1]
