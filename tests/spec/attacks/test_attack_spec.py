"""Every kind of attack has its name among the kinds, and a question that it asks."""

from typing import get_args

from fedaudit.spec.attacks.attack_spec import AttackKind, attack_titles


def test_every_kind_asks_a_question_of_its_own() -> None:
    titles = attack_titles()
    assert set(titles) == set(get_args(AttackKind))
    assert len(set(titles.values())) == len(titles)
    assert all(title.endswith("?") for title in titles.values())
