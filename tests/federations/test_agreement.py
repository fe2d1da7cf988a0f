"""What a spec and its data must agree on beyond the source."""

from typing import Any

import pytest

from tests.federations.conftest import Load, Refuse

DATA = "hospital,x,sex,cost\n" + "".join(
    f"h{index % 10},1,{'FM'[index % 2]},2\n" for index in range(11)
)
SEX: dict[str, Any] = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 0}}
PLAIN: dict[str, Any] = {"federation.drop": ["sex"]}


def test_a_cohort_may_take_every_training_client(load: Load, refuse: Refuse) -> None:
    changes = {**PLAIN, "federation.validation_fraction": 0.3}
    assert load({**changes, "training.cohort": {"clients": 7}}, data=DATA).clients == 10
    faults = refuse({**changes, "training.cohort": {"clients": 8}}, data=DATA)
    assert list(faults) == ["/training/cohort/clients"]
    message = faults["/training/cohort/clients"]
    assert "8" in message
    assert "7 training clients" in message


def test_more_validation_clients_than_there_are_is_no_fault(load: Load) -> None:
    changes = {**PLAIN, "training.stopping": {"validation_clients": 200, "patience": 3}}
    assert load(changes, data=DATA).clients == 10


def test_the_reference_group_exists(load: Load, refuse: Refuse) -> None:
    assert load({"fairness": {**SEX, "reference_group": "F"}}, data=DATA).clients == 10
    faults = refuse({"fairness": {**SEX, "reference_group": "X"}}, data=DATA)
    assert "'F', 'M'" in faults["/fairness/reference_group"]
    changes = {**PLAIN, "fairness": {"reference_group": "F"}}
    assert "there are none" in refuse(changes, data=DATA)["/fairness/reference_group"]


@pytest.mark.parametrize("clients", [1, 9])
def test_faults_of_several_parts_come_together(refuse: Refuse, clients: int) -> None:
    changes = {
        "fairness": {**SEX, "reference_group": "X"},
        "training.cohort": {"clients": clients},
    }
    faults = refuse(changes, data=DATA)
    assert ("/training/cohort/clients" in faults) == (clients == 9)
    assert "/fairness/reference_group" in faults
