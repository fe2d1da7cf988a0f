"""What varies between cells, as columns."""

from fedaudit.sweeps.sweep_table import ABSENT, short_names, value_words, varied_fields


def test_an_object_is_a_column_for_each_of_its_fields() -> None:
    rows = [
        {"privacy": {"mechanism": "none"}, "seed": 1},
        {"privacy": {"mechanism": "laplace-l2", "cohort": {"rate": 0.5}}, "seed": 2},
        {"privacy": None, "seed": 3},
    ]
    assert varied_fields(rows) == {
        "privacy.mechanism": ["none", "laplace-l2", ABSENT],
        "privacy.cohort.rate": [ABSENT, 0.5, ABSENT],
        "privacy": [ABSENT, ABSENT, None],
        "seed": [1, 2, 3],
    }


def test_values_are_told_as_a_spec_has_them() -> None:
    assert [*map(value_words, ("k-means", None, True, 0.5, ["a"], ABSENT))] == [
        *("k-means", "null", "true", "0.5", '["a"]', "")
    ]


def test_names_are_as_short_as_they_can_be_told_apart() -> None:
    paths = ["a.local.step_size", "a.method.step_size", "b.rounds", "gates.0", "b.seed"]
    assert short_names(paths, taken=["rounds"]) == [
        *("local.step_size", "method.step_size", "b.rounds", "gates.0", "seed")
    ]
