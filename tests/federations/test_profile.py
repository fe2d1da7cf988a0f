"""The figures shown of a federation."""

import json

from fedaudit.federations.profile import profile

from .conftest import Load

DATA = "hospital,x,sex,cost\na,1,F,7\na,2,M,8\nb,3,F,6\nb,4,,7\nb,5,F,0\nc,6,M,1\n"


def test_sizes_and_names_as_json(load: Load) -> None:
    fairness = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 0}}
    figures = profile(load({"fairness": fairness}, data=DATA))

    assert json.loads(json.dumps(figures)) == figures
    assert figures == {
        "clients": 3,
        "rows": 6,
        "rows_per_client": {"minimum": 1, "median": 2.0, "maximum": 3},
        "features": ["x"],
        "target": "cost",
        "classes": [],
        "attributes": {"sex": {"F": 3, "M": 2}},
        "notes": ["rows without a value of 'sex', in no group: 1"],
    }
