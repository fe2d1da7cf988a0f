"""The view `privacy_ledger`: the packed ledger, one row for each subject and component.

The figures are computed in the order in which the software computes them, one operation at a time
in double precision, so that they agree to the last bit. A ledger row without components has one,
`all`, with every parameter. An entry against readers of the report has one subject, which is none
of the run's and covers everyone held out of training: its name follows from its kind.
"""

from pathlib import Path

_HERE = Path(__file__).parent


def create_view(dialect: str) -> str:
    """The statement that makes the view on `sqlite` or `postgresql`."""
    view, unpacked = (
        (_HERE / f"{name}.sql").read_text("utf-8")
        for name in ("privacy_ledger", f"ledger_{dialect}")
    )
    return view.replace("{unpacked}", unpacked)
