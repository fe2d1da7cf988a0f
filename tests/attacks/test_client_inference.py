"""Client inference: one participant infers which others took part, unless noise hides it."""

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, source_of
from fedaudit.attacks.client_inference import attack_client_inference
from fedaudit.attacks.feasibility import faults
from fedaudit.attacks.membership import shadow_design
from fedaudit.attacks.membership.membership_attack import Observations, RowObserver
from fedaudit.attacks.membership.shadow_design import choose_rows, trained_rows
from fedaudit.privacy.lower_bounds.e_values import ALARM_LEVEL
from fedaudit.reports.sections.attacks import ClientInferenceSection
from fedaudit.spec.attacks import ClientInferenceSpec
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.attacks.attacked_runs import attacked_run, labels_by_chance, overfitted, overfitting_spec
from tests.training.specs import cell, groups_spec

NOISED = {"mechanism": "gaussian-central", "noise_multiplier": 300.0, "clip": 1.0, "delta": 1e-5}
BY_DISTANCE = {"mechanism": "gaussian-distance", "noise_multiplier": 0.01, "clip": 1.0}
FALSE_ALARM = 0.01
"""Of a band around one half that an attack without any information leaves."""


def attack(attacked: AttackedRun, **spec: Any) -> tuple[ClientInferenceSection, AttackOutcome]:
    shares: list[float] = []
    found = attack_client_inference(ClientInferenceSpec(**spec), attacked, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert isinstance(found.section, ClientInferenceSection)
    return found.section, found


def chance(section: ClientInferenceSection) -> float:
    """How far an AUC by guessing is from one half, but for a share of FALSE_ALARM of seeds."""
    inside, outside = section.took_part, section.did_not
    return 2.576 * float(np.sqrt((inside + outside + 1) / (12 * inside * outside)))


def test_without_noise_every_client_that_took_part_is_told_from_the_others() -> None:
    section, outcome = attack(overfitted())
    assert section.auc == 1.0
    assert section.auc > section.detectable_auc > 0.5 + chance(section) / 2
    assert (section.took_part, section.did_not) == (10, 20)
    assert section.claim is None
    assert "no mechanism" in section.reasons["claim"]
    assert section.e_value is None
    lines = list(csv.DictReader(io.StringIO(outcome.files["clients.csv"].decode())))
    scores = {
        side: [float(one["score"]) for one in lines if one["took_part"] == side] for side in "01"
    }
    assert min(scores["1"]) > max(scores["0"])
    assert section.advantage.value == pytest.approx(
        np.mean(np.array(scores["1"]) > 0) - np.mean(np.array(scores["0"]) > 0)
    )
    assert section.advantage.low <= section.advantage.value <= section.advantage.high


def test_enough_noise_brings_it_down_to_chance_and_raises_no_alarm() -> None:
    section, _ = attack(overfitted(privacy=NOISED))
    assert abs(section.auc - 0.5) < chance(section)
    assert section.advantage.low < 0 < section.advantage.high
    assert section.claim is not None
    assert section.claim.unit == "client"
    assert section.alarm is None
    assert section.e_value is not None
    assert section.e_value < 1 / ALARM_LEVEL


def test_noise_by_distance_hides_less_the_farther_apart_clients_are() -> None:
    """At the noise of the paper it shows who took part; at 30,000 times as much it does not."""
    little, _ = attack(overfitted(privacy=BY_DISTANCE))
    much, _ = attack(overfitted(privacy={**BY_DISTANCE, "noise_multiplier": 300.0}))
    assert little.auc > little.detectable_auc
    assert abs(much.auc - 0.5) < chance(much)
    assert "no epsilon" in little.reasons["claim"]


def test_shadow_runs_score_by_the_likelihood_ratio() -> None:
    data = labels_by_chance(rows=10, width=100)
    run = attacked_run(Cell(parse_spec(overfitting_spec()), data))
    section, _ = attack(run, shadows=64, shadow_share=0.3)
    assert section.shadows == 64
    assert section.auc > section.detectable_auc
    # Zero is where both are equally likely.
    assert section.advantage.low > 0


def test_a_share_of_each_clients_rows_is_all_that_it_has() -> None:
    run = overfitted()
    seen = [attack(run, shadow_share=share)[0].auc for share in (0.02, 1.0)]
    assert seen[0] < seen[1] == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training__method": {"kind": "local-only"}}, "no common model"),
        (
            {"federation": {"source": "synthetic-groups", "validation_unit": "record"}},
            "none is outside",
        ),
    ],
)
def test_where_nobody_is_outside_or_nothing_is_sent_it_is_refused(changes, words):
    with pytest.raises(InvalidInputError, match=words):
        parse_spec(groups_spec(attacks=[{"kind": "client-inference"}], **changes))


def halved(clients: int, **changes: Any) -> Cell:
    """So many clients train, and as many are held out."""
    data = {
        "source": "synthetic-groups",
        "clients_per_group": [clients, clients],
        "validation_fraction": 0.5,
    }
    return cell(groups_spec(federation=data, training__cohort={"clients": 3}, **changes))


def test_few_clients_on_either_side_are_refused() -> None:
    """Those that are not scored do not count, and the least of a group is asked of them."""
    least, enough = (halved(15, fairness__minimum_group_clients=count) for count in (16, 15))
    held_out = np.unique(enough.federation.client_of[~trained_rows(enough)])
    left_out = np.isin(enough.federation.client_of, held_out[4:])
    not_scored = replace(enough, federation=replace(enough.federation, left_out=left_out))
    for few in (halved(4), least, not_scored):
        assert "/kind" in [one.pointer for one in faults(ClientInferenceSpec(), few, at="")]
    assert faults(ClientInferenceSpec(), enough, at="") == []


def test_on_large_data_no_client_drops_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of each client's rows is drawn before rows are limited."""
    run = overfitted()
    monkeypatch.setattr(shadow_design, "MAX_ROWS_EACH", 25)
    for share in (0.1, 1.0):
        rows = choose_rows(run.run.cell, source_of(run.run.cell), models=1, share=share)
        assert len(np.unique(rows.client[rows.member])) == 10
        assert len(np.unique(rows.client[~rows.member])) == 20
        assert max(rows.member.sum(), (~rows.member).sum()) <= 25
        assert np.all(np.diff(rows.place) > 0)


def test_an_infinite_loss_of_one_participant_changes_no_other_score(monkeypatch):
    run, observe = overfitted(), RowObserver.observe
    rows = choose_rows(run.run.cell, source_of(run.run.cell), models=1, share=0.1)

    def one_infinite(self: RowObserver, hypotheses: Any) -> Observations:
        seen = observe(self, hypotheses)
        loss = seen.loss.copy()
        loss[int(np.flatnonzero(rows.member)[0])] = np.inf
        return replace(seen, loss=loss)

    monkeypatch.setattr(RowObserver, "observe", one_infinite)
    section, _ = attack(run)
    assert section.auc == pytest.approx(0.9)  # nine of ten above all others
    assert section.advantage.value > 0


def test_with_secret_noise_it_says_that_no_guarantee_covers_it() -> None:
    plain = overfitted(privacy=NOISED)
    of_cell = plain.run.cell.spec
    privacy = of_cell.privacy.model_copy(update={"noise": "release"})
    spec = of_cell.model_copy(update={"privacy": privacy})
    secret = replace(plain, run=replace(plain.run, cell=replace(plain.run.cell, spec=spec)))
    assert "keep them confidential" in attack(secret)[0].statement
    assert "keep them confidential" not in attack(plain)[0].statement
