"""Whether what rounds declared beside their entries is still what the chain holds."""

from api.shared.resources import Resources
from fedaudit.ledger.audit import Places
from fedaudit.ledger.declared import changed_reservations, declaration_of, drawn_hash
from fedaudit.reports.declared.stored_material import stored_drawn
from fedaudit.reports.document.checks import Check, check
from models.repositories import DeclaredEntryRepository, DeclaredPartRepository
from models.tables.declared_ledgers import DeclaredLedger


def declarations_check(resources: Resources, ledger: DeclaredLedger) -> Check:
    """Compares each stored round up to the ledger's last with the declaration of its entries, what
    was reserved with what the round behind it says of it, and who was drawn with what the newest
    round says. That entries are as they were chained, other checks say."""
    with resources.database.read() as session:
        chained = DeclaredEntryRepository(session, ledger.project_id).declarations(ledger.id)
        parts = DeclaredPartRepository(session, ledger.project_id)
        declared = parts.rounds(ledger.id, upto=ledger.last_round)
        reserved = parts.reservations(ledger.id)
    secret, wrong = ledger.secret or bytes(32), Places()
    for one in declared:
        stated = chained.get(one.round)
        if stated is not None and stated != declaration_of(one, secret):
            wrong.add(f"round {one.round}")
    missing = chained.keys() - {one.round for one in declared}
    for number in sorted(one for one in missing if one <= ledger.last_round):
        wrong.add(f"round {number}, which is missing")
    for number in changed_reservations(declared, reserved, secret):
        wrong.add(f"what was reserved before round {number}")
    said = next((one.drawn for one in reversed(declared) if one.drawn is not None), None)
    drawn = stored_drawn(ledger.drawn_names, ledger.drawn_counts)
    if said is not None and said != drawn_hash(drawn, secret):
        wrong.add("those who were drawn")
    return check(
        "ledger.declarations",
        not wrong.count,
        good="counts of groups, and what else rounds declared, are what the chain holds",
        bad=f"not what was declared: {wrong}",
    )
