"""The view `privacy_ledger` since revision 0013: with the people held out of training as a subject.

An entry against readers of the report has one subject, which stands for all of them and is none of
the run's subjects: its name follows from its kind. All else is as in `layer_ledger`.
"""

from migrations.earlier.layer_ledger import create_view as create_layer_view

_SUBJECT, _INDEX = "u.subject_name AS subject,", "u.subject AS subject_index,"
_NAMED = """CASE u.subject_kind WHEN 'validation_client' THEN 'every validation client'
        WHEN 'validation_record' THEN 'every held-out record' ELSE u.subject_name END AS subject,"""
_PLACED = """CASE WHEN u.subject_kind IN ('validation_client', 'validation_record') THEN NULL
        ELSE u.subject END AS subject_index,"""


def create_view(dialect: str) -> str:
    """The statement that makes the view on `sqlite` or `postgresql`."""
    view = create_layer_view(dialect)
    return view.replace(_SUBJECT, _NAMED).replace(_INDEX, _PLACED)
