"""Propose a registration for an open file."""

from fedaudit.federations.proposals.column_survey import survey_table
from fedaudit.federations.proposals.proposal import Proposal, propose
from fedaudit.federations.reading.source_files import SourceFile

MAX_NAME_LENGTH = 200


def propose_file(
    file: SourceFile,
    *,
    name: str,
    most_rows: int,
    header: bool = True,
    client_key: str | None = None,
    target: str | None = None,
) -> Proposal:
    """From the first `most_rows` rows. Raises InvalidInputError for what is no usable table."""
    survey = survey_table(file, header=header, most_rows=most_rows)
    return propose(
        survey,
        name=name[:MAX_NAME_LENGTH],
        header=header,
        client_key=client_key,
        target=target,
    )
