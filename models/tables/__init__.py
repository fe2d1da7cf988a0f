"""The tables, one module a subject; importing this package gives the whole metadata."""

from models.tables import accounts, experiments, federations, ledger
