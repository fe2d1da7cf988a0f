"""Whether WeasyPrint and the libraries it loads are here."""

import importlib.util

import pytest


def installed() -> bool:
    if importlib.util.find_spec("weasyprint") is None:
        return False
    try:
        importlib.import_module("weasyprint")
    except OSError:
        return False
    return True


needs_pango = pytest.mark.skipif(
    not installed(), reason="WeasyPrint or the system's library Pango is not installed"
)
