"""A draft record of the Differential Privacy Deployments Registry, complete up to tier 3.

The fields and their allowed values are those of the registry's deployments-schema.yaml. Its texts
are Markdown, so values from the report are escaped. Facts that a run cannot know are not invented:
the text says that they are not stated, and the notes list every field that a person has to fill.
"""

import re
from typing import Any

from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.document.checks import value_at
from fedaudit.reports.document.participation import charges_everyone
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import (
    NOT_STATED,
    Document,
    figure,
    number_at,
    part_at,
    settings,
    text_at,
    texts_at,
)
from fedaudit.reports.readings.markdown import bullets, plain
from fedaudit.reports.readings.reading import ReportReading

_PREPARATION = "/deployment/implementation/preprocessing_and_hyperparameter_tuning"
_FOR_A_PERSON = {
    "/deployment/basic/data_curators": "who publishes the model",
    "/deployment/basic/intended_use": "what it is for",
    "/deployment/basic/data_product_region": "which region or whose law",
    "/deployment/basic/data_product_sector": "left out: the schema has no value for unknown",
    "/deployment/basic/publication_date": "here the day on which training ended",
    "/deployment/deployment_model/release_type": "right only if this model is published once",
    "/deployment/deployment_model/release_type_details": "plans for the same data",
    "/deployment/accounting/post_processing": "what is done to the model afterwards",
    _PREPARATION: "how settings were chosen",
    "/deployment/implementation/mechanisms": "who may see the data, and how that is kept",
    "/deployment/implementation/justification": "why these choices",
    "/deployment/administrative/sources": "links to the model and to papers",
    "/deployment/administrative/registry_authors": "who completes this record",
}
_NO_DEPLOYMENT = (
    "This run has no privacy guarantee: it is no deployment of differential privacy and does not "
    "belong in the registry."
)


def registry(document: Document) -> dict[str, Any]:
    """The record of a report, to be completed by a person."""
    return {
        "url_slug": _slug(document),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(document),
            "dp_variant": _variant(document),
            "privacy_loss": _privacy_loss(document),
            "deployment_model": _deployment_model(document),
            "accounting": _accounting(document),
            "implementation": _implementation(document),
            "administrative": _administrative(document),
        },
    }


REGISTRY = ReportReading(
    name="registry",
    title="Deployments registry",
    note=(
        "A record of the Differential Privacy Deployments Registry. What the run cannot know is "
        "marked, for you to fill in."
    ),
    make=registry,
    schema={
        "type": "object",
        "description": "A record of the Differential Privacy Deployments Registry.",
        "required": ["url_slug", "status", "tier", "deployment"],
    },
)


def _slug(document: Document) -> str:
    """The experiment's name and the end of its id, which distinguishes runs of the same name."""
    name = text_at(document, "experiment", "name") or "experiment"
    words = re.findall(r"[a-z0-9]+", f"{name} {_id(document)[-12:]}".lower())
    return "-".join(words)[:100]


def _basic(document: Document) -> dict[str, Any]:
    about = [facts.federation(document), facts.model(document), facts.trained(document)]
    if facts.is_simulated(document):
        about.insert(0, facts.NOT_FOR_RELEASE)
    finished = text_at(document, "provenance", "finished_at") or ""
    day = re.match(r"\d{4}-\d{2}-\d{2}", finished)
    return {
        "name": plain(text_at(document, "experiment", "name") or f"{NOT_STATED}."),
        "data_curators": [f"{NOT_STATED}: who publishes the model."],
        "description": plain(" ".join(filter(None, about))),
        "intended_use": f"{NOT_STATED}: what the model is for.",
        "data_product_type": "Machine learning model",
        "data_product_region": f"{NOT_STATED}: which region the data describe.",
        "publication_date": day.group() if day else f"{NOT_STATED}.",
    }


def _variant(document: Document) -> dict[str, str]:
    data = facts.federation(document) or f"{NOT_STATED}."
    unit = text_at(document, "guarantee", "unit") or "unit"
    domain = [data, f"The guarantee speaks of the data of a training {unit}."]
    found = {}
    name = _variant_name(document)
    if name is not None:
        found["variant_name"] = name
    if name == "Custom":
        # The registry asks for the relation where the variant has no common name.
        domain.append(
            f"Privacy relation: neighbours are {_neighbours(document)}; their outputs are "
            f"compared by {_comparison(document)}; for the bounds and their reach see "
            "privacy_parameters_details."
        )
    found["data_domain"] = plain(" ".join(domain))
    found["unprotected_quantities"] = plain(" ".join(_unprotected(document)))
    return found


def _variant_name(document: Document) -> str | None:
    """None without a guarantee: the schema has no value for that."""
    if not facts.is_protected(document):
        return None
    proven = facts.kind(document) == "formal" and facts.epsilon_max(document) is not None
    return "Approximate DP" if proven else "Custom"


def _neighbours(document: Document) -> str:
    adjacency = text_at(document, "guarantee", "adjacency")
    if adjacency is not None:
        return adjacency_words(adjacency)
    return text_at(document, "guarantee", "reasons", "adjacency") or "unknown"


def _comparison(document: Document) -> str:
    if facts.epsilon_max(document) is None:
        return "the largest logarithm of the ratio of their densities"
    return "(epsilon, delta)"


def _unprotected(document: Document) -> list[str]:
    found = [facts.held_out(document)]
    if not facts.is_protected(document):
        return ["Everything: there is no privacy mechanism.", *found]
    if value_at(document, "spec", "federation", "standardise") is not None:
        found.append("Features were standardised by means and deviations taken without noise.")
    known = facts.mechanism_facts(document)
    if known is None or known.participation_is_visible:
        found.append(
            "Which clients took part, were refused over their budget, or had an update withheld is "
            "visible to the server."
        )
    return found


def _privacy_loss(document: Document) -> dict[str, Any]:
    unit = text_at(document, "guarantee", "unit") or f"{NOT_STATED}."
    key = facts.client_key(document)
    if unit == "client" and key is not None:
        unit = f"client: all rows with the same value of the column {key}"
    statement = text_at(document, "guarantee", "statement") or f"{NOT_STATED}."
    details = [*facts.spent(document), statement]
    if facts.is_simulated(document):
        details.insert(0, facts.NOT_FOR_RELEASE)
    return {
        "privacy_unit": plain(unit),
        "privacy_unit_details": plain(_neighbours(document)),
        "privacy_parameters": _parameters(document),
        "privacy_parameters_details": plain(" ".join(details)),
    }


def _parameters(document: Document) -> dict[str, float]:
    """Epsilon and delta. Leakage under metric privacy is neither of them, and has no field here."""
    epsilon = facts.epsilon_max(document)
    delta = number_at(document, "guarantee", "delta")
    if not facts.is_protected(document) or epsilon is None or delta is None:
        return {}
    return {"epsilon": epsilon, "delta": delta}


_SERVER = (
    "Clients hold the data and compute updates; the server sees who sends, averages the updates "
    "and holds the models."
)
_NO_SERVER = "Clients hold the data and train models of their own; no server is sent anything."


def _deployment_model(document: Document) -> dict[str, str]:
    name, details = "Federated", "Data stay with the clients. Who adds noise is not known."
    origin = facts.noise_origin(document)
    if origin is not None:
        name, details = origin.registry_model, origin.registry_details
    against = texts_at(document, "guarantee", "observers")
    stated = ", and against ".join(map(facts.observer, against)) or "nobody"
    return {
        "model_name": name,
        "model_name_details": plain(details),
        "actors": plain(
            f"{_NO_SERVER if facts.sends_nothing(document) else _SERVER} The guarantee is against "
            f"{stated}. Whether these parties can be trusted so far is not stated by this run."
        ),
        "release_type": "One release",
        "release_type_details": (
            "The record is of one training run. What else is published from the same data, or "
            "planned, is not stated by this run."
        ),
        "data_source_type": "Static",
        "data_source_type_details": plain(
            "The run read one fixed data set, SHA-256 "
            f"{text_at(document, 'provenance', 'data_fingerprint') or 'unknown'}."
        ),
        "access_type": "Non-interactive",
        "access_type_details": "The run trains a model; nobody queries the data through it.",
    }


def _accounting(document: Document) -> dict[str, str]:
    most = figure(number_at(document, "privacy", "participations_max"))
    charged = f"{most} for the busiest subject"
    if charges_everyone(text_at(document, "guarantee", "mechanism")):
        charged = f"{most}, all charged to everyone"
    composed = [*facts.spent(document), f"Composed over rounds, {charged}."]
    if not facts.is_protected(document):
        composed = ["Nothing is counted: there is no guarantee."]
    return {
        "post_processing": (
            f"Averaging and clustering use what the mechanism released. {_chosen(document)} "
            "What is done to the models afterwards is not stated by this run."
        ),
        "composition": plain(" ".join(composed)),
    }


def _chosen(document: Document) -> str:
    if part_at(document, "fairness_privacy"):
        return "The models of the last round are kept, whatever their losses."
    return (
        "Which round's models are kept follows from losses on held-out rows without noise and is "
        "no post-processing."
    )


def _implementation(document: Document) -> dict[str, str]:
    prepared = [
        *(f"{note}." for note in texts_at(document, "data", "notes")),
        "How the settings were chosen, and whether earlier runs on the same data led to them, is "
        "not stated by this run; its figures count this training alone.",
    ]
    return {
        "preprocessing_and_hyperparameter_tuning": plain(" ".join(prepared)),
        "mechanisms": plain(" ".join(_mechanisms(document))),
        "justification": f"{NOT_STATED}: why these choices were made.",
    }


def _mechanisms(document: Document) -> list[str]:
    privacy = settings(part_at(document, "spec", "privacy")) or "unknown"
    version = text_at(document, "provenance", "code_version") or "of unknown version"
    libraries = settings(part_at(document, "provenance", "libraries")) or "unknown"
    floats = [one for one in texts_at(document, "limits") if "floating-point" in one]
    return [
        f"{privacy}.",
        f"Implemented by fedaudit {version} with the libraries {libraries}.",
        *floats,
        "Measures against timing and other side channels, and who may see the data, are not stated "
        "by this run.",
    ]


def _administrative(document: Document) -> dict[str, Any]:
    fields = [f"`{pointer}`: {what}" for pointer, what in _missing(document).items()]
    notes = [
        *_paragraph([] if facts.is_protected(document) else [_NO_DEPLOYMENT]),
        *_paragraph(["To be filled in or confirmed by a person:"]),
        *_paragraph(bullets(fields)),
        *_paragraph([plain(text_at(document, "verdict") or "")]),
        *bullets(map(plain, texts_at(document, "limits"))),
    ]
    return {
        "sources": plain(" ".join(_evidence(document))),
        "notes": "\n".join(notes).strip(),
        "registry_authors": [f"{NOT_STATED}: drafted by fedaudit from an audit report."],
    }


def _paragraph(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines else []


def _missing(document: Document) -> dict[str, str]:
    """JSON pointer of every field that a person has to fill or confirm, with a description."""
    missing = dict(_FOR_A_PERSON)
    if _variant_name(document) is None:
        missing["/deployment/dp_variant/variant_name"] = "left out: there is no guarantee"
    return missing


def _evidence(document: Document) -> list[str]:
    ledger = text_at(document, "integrity", "ledger_hash") or "unknown"
    spec = text_at(document, "provenance", "spec_hash") or "unknown"
    return [
        f"Audit report of experiment {_id(document)}: ledger hash {ledger}, spec hash {spec}.",
        "Where the model and papers about it are published is not stated by this run.",
    ]


def _id(document: Document) -> str:
    return text_at(document, "experiment", "id") or "unknown"
