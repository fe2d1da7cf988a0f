"""The pages of declared ledgers: whatever they show is as declared by the trainer."""

from tests.api.ledgers.trainings import (
    CENTRAL,
    LOCAL,
    POISSON,
    declared,
    epsilon,
    opened,
    post,
    reserve,
)
from tests.api.pages.browser import signed_in
from tests.api.service import Api

AS_DECLARED = "as declared by the trainer"


def test_a_ledger_is_shown_with_its_rounds_and_refusals(api: Api) -> None:
    probe = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])])
    ledger = opened(api, name="<wards>", budget={"epsilon": epsilon(api, probe)})
    assert reserve(api, ledger, 1, ["a", "b"])["refused"] == []
    post(api, ledger, declared(1, ["a"], failures=["b"]))
    post(api, ledger, declared(2, ["a"]))
    assert [one["subject"] for one in reserve(api, ledger, 3, ["a", "c"])["refused"]] == ["a"]
    post(api, ledger, declared(3, ["c"]))
    assert reserve(api, ledger, 5, ["a"])["admitted"] == []
    browser = signed_in(api)
    listed = browser.get("/ledgers").text
    assert AS_DECLARED in listed
    assert f'href="/ledgers/{ledger}"' in listed
    assert "&lt;wards&gt;" in listed
    shown = browser.get(f"/ledgers/{ledger}").text
    for words in (
        *(AS_DECLARED, "gaussian, noise multiplier 8, steps 1", "not reserved"),
        *("as reserved; 1 client refused", "refused: no one was admitted"),
    ):
        assert words in shown, words
    for link in ("report", "verification", "bundle.zip"):
        answer = browser.get(f"/ledgers/{ledger}/{link}")
        assert answer.status_code == 200
        assert f'href="/ledgers/{ledger}/{link}"' in shown
        if link != "bundle.zip":
            assert AS_DECLARED in answer.text
    # Asked with somebody who has room the round is held, and stays so where others are refused.
    for name, admitted in (("d", ["d"]), ("a", [])):
        assert reserve(api, ledger, 5, [name])["admitted"] == admitted
        shown = browser.get(f"/ledgers/{ledger}").text
        assert "is held for a day at most" in shown
        assert "no one was admitted" not in shown
    assert "What to do next: Reserve each round before it runs" in shown
    assert "Declare counts of groups with a round" in shown
    assert "of the time. That is within the budget" in shown
    assert "No round was reserved." in browser.get(f"/ledgers/{probe}").text
    older = browser.get(f"/ledgers/{ledger}?below=2").text
    assert "Newest rounds" in older
    assert "not reserved" not in older


def test_costs_that_nothing_bounds_and_contradictions_stand_out(api: Api) -> None:
    bare = opened(api, {**LOCAL, "mechanism": "none", "delta": None, "accountant": None})
    post(api, bare, declared(1, ["a"], {"kind": "none"}))
    unlikely = opened(api, {**CENTRAL, "population": 1000})
    post(api, unlikely, *(declared(one, ["a"], {**POISSON, "rate": 1e-3}) for one in range(1, 21)))
    browser = signed_in(api)
    assert browser.get("/ledgers").text.count('class="unbounded"') == 1
    assert "unbounded" in browser.get(f"/ledgers/{bare}").text
    assert "contradicts itself" in browser.get(f"/ledgers/{unlikely}").text
    assert "contradicts itself" not in browser.get(f"/ledgers/{bare}").text


def test_a_key_sees_what_its_scopes_allow(api: Api) -> None:
    ledger = opened(api, CENTRAL, rounds=[declared(1, ["a"], POISSON)])
    reader = signed_in(api, "experiments:read")
    shown = reader.get(f"/ledgers/{ledger}").text
    # How many a secret sample held is confidential.
    assert "Participants" not in shown
    assert "Participants" in signed_in(api).get(f"/ledgers/{ledger}").text
    assert f"/ledgers/{ledger}/report" not in shown
    assert reader.get(f"/ledgers/{ledger}/report").status_code == 403
    officer = signed_in(api, "reports:read")
    assert officer.get(f"/ledgers/{ledger}").status_code == 403
    report = officer.get(f"/ledgers/{ledger}/report").text
    assert f'href="/ledgers/{ledger}"' not in report
    assert "bundle.zip" not in report
    assert officer.get(f"/ledgers/{ledger}/bundle.zip").status_code == 403
