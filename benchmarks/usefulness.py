"""What proposals train on real tables, beside a constant and scikit-learn without privacy.

    python -m benchmarks.usefulness --data DATA

Nothing is tuned by hand: every run is what `propose_experiment` answers, for seeds 1 to 3
(handwriting: 1). Writes the table of docs/usefulness.md.
"""

import argparse
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.pages import write
from fedaudit.cli.run import run_locally
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.profiles.profile import profile
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.split import held_out_rows, split_clients
from fedaudit.runs.declared_facts import DeclaredFacts, shown_facts
from fedaudit.runs.proposed_experiment import ProposalAim, ProposedExperiment, propose_experiment
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec

SEEDS = (1, 2, 3)
LONG = "handwriting, 217 writers"
"""A table whose runs take more than a minute: only the first seed."""
EPSILONS = (1.0, 3.0, 8.0)
Source = dict[str, Any]


def one_hot(name: str, *values: str, **more: str) -> dict[str, Any]:
    return {"name": name, "kind": "categorical", "categories": list(values), **more}


def between(low: float, high: float) -> dict[str, float]:
    return {"low": low, "high": high}


INCOME: Source = {
    "source": "table",
    "path": "acs_income/acs_income_2018_35_states_1000_each.csv.gz",
    "client_key": "state",
    "target": "PINCP",
    "positive": "1",
    "features": [*("AGEP", "SCHL", "WKHP"), one_hot("COW", *"12345678"), one_hot("MAR", *"12345")],
}
ADULT: Source = {
    "source": "table",
    "path": "adult/adult_raw.csv.gz",
    "target": "income-per-year",
    "positive": ">50K",
    "features": [
        *("age", "education-num", "hours-per-week", "capital-gain", "capital-loss"),
        one_hot(
            "marital-status",
            *("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"),
            *("Never-married", "Separated", "Divorced", "Widowed"),
        ),
    ],
    "scale": {
        "age": between(15, 90),
        "education-num": between(1, 16),
        "hours-per-week": between(0, 80),
        "capital-gain": between(0, 20000),
        "capital-loss": between(0, 4000),
    },
}
HEART: Source = {
    "source": "table",
    "path": "heart_disease/heart_disease_4hospitals.csv",
    "client_key": "hospital",
    "target": "target",
    "positive": "1",
    "features": [
        *("age", "sex"),
        one_hot("cp", *"1234"),
        *({"name": name, "missing": "drop-row"} for name in ("trestbps", "chol", "fbs")),
        one_hot("restecg", *"012", missing="drop-row"),
        *({"name": name, "missing": "drop-row"} for name in ("thalach", "exang", "oldpeak")),
    ],
    "scale": {
        "age": between(20, 90),
        "trestbps": between(80, 200),
        "chol": between(0, 600),
        "thalach": between(60, 220),
        "oldpeak": between(-3, 7),
        **dict.fromkeys(("sex", "fbs", "exang"), between(0, 1)),
    },
}
MNIST: Source = {
    "source": "table",
    "path": "mnist_5k/mnist_5k.csv.gz",
    "header": False,
    "target": "column_785",
    "scale": {"*": 255},
}


def dealt(source: Source, clients: int) -> Source:
    return {**source, "partition": {"method": "iid", "clients": clients}}


TABLES: dict[str, Source] = {
    "income, 35 states, scales only": {**INCOME, "scale": {"AGEP": 100, "SCHL": 24, "WKHP": 100}},
    "income, 35 states, ranges": {
        **INCOME,
        "scale": {"AGEP": between(16, 95), "SCHL": between(1, 24), "WKHP": between(0, 80)},
    },
    "adult, 15 occupations": {**ADULT, "client_key": "occupation"},
    "adult, 42 countries": {**ADULT, "client_key": "native-country"},
    "adult, 300 made-up clients": dealt(ADULT, 300),
    "heart disease, 4 hospitals": HEART,
    "hospital charges, by provider": {
        "source": "hospital-charges",
        "path": "hospital_charges/four_conditions.csv.gz",
        "client_key": "provider_id",
        "zip_table": "zip_codes/us_zip_lat_lon.csv.gz",
    },
    "digits, 100 made-up clients": dealt(MNIST, 100),
    "digits, 300 made-up clients": dealt(MNIST, 300),
    LONG: {
        "source": "images",
        "path": "unipen_handwriting/unipen_alnum62_28x28.npz",
        "client_key": "writer",
        "classes": 62,
    },
}
"""By name, the source as somebody would register it."""


def facts_of(name: str, source: Source, data: Path) -> DeclaredFacts:
    """What a service would know of the table."""
    federation = load_federation(_plain(source), sources_dir=data)
    return DeclaredFacts(
        federation_id="0" * 8 + "-0000-0000-0000-" + "0" * 12,
        name=name,
        registration={"name": name, "federation": source, "fairness": {}},
        **shown_facts(profile(federation)),
    )


def _plain(source: Source) -> ExperimentSpec:
    number = source["source"] == "hospital-charges"
    return parse_spec(
        {
            "name": "plain",
            "federation": source,
            "model": {"kind": "linear" if number else "logistic"},
            "training": {
                "loss": "mse" if number else "cross-entropy",
                "rounds": 1,
                "cohort": {"sampling": "fixed", "clients": 1},
            },
            "privacy": {"mechanism": "none"},
        }
    )


def spec_of(found: ProposedExperiment, source: Source, seed: int) -> ExperimentSpec:
    """The proposal over the file below the sources folder, with another seed."""
    asked = {name: value for name, value in found.spec["federation"].items() if name != "id"}
    return parse_spec({**found.spec, "seed": seed, "federation": {**source, **asked}})


def trained(
    found: ProposedExperiment, source: Source, data: Path, seeds: tuple[int, ...]
) -> Iterator[Mapping[str, Any]]:
    """The reports of all seeds."""
    for seed in seeds:
        spec = spec_of(found, source, seed)
        yield run_locally(spec, sources_dir=data, device="cpu", progress=lambda _: None).report


def held_out(spec: ExperimentSpec, federation: Federation) -> NDArray[np.bool_]:
    """[rows]: which rows are held out."""
    fraction = spec.federation.validation_fraction
    if spec.federation.holds_out_rows:
        return held_out_rows(record_keys(federation), fraction=fraction, seed=spec.seed)
    split = split_clients(federation.clients, validation_fraction=fraction, seed=spec.seed)
    return np.isin(federation.client_of, split.validation)


def by_scikit_learn(spec: ExperimentSpec, data: Path) -> float:
    """Its regression without privacy, on all training rows at once, standardised over them."""
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    federation = load_federation(spec, sources_dir=data)
    apart, features, target = held_out(spec, federation), federation.features, federation.target
    if isinstance(features, ClientRows):
        features = features.values.astype(np.float32) / np.float32(features.divisor)
    model = LogisticRegression(max_iter=200) if federation.classes else LinearRegression()
    pipeline = make_pipeline(StandardScaler(), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(features[~apart], target[~apart])
    if federation.classes:
        return float(pipeline.score(features[apart], target[apart]))
    return float(np.mean((pipeline.predict(features[apart]) - target[apart]) ** 2))


def cell(found: ProposedExperiment, reports: list[Mapping[str, Any]], figure: str) -> str:
    """The mean and two standard errors, AUC, the expected noise ratio, and whom it protects."""
    utility = [report["utility"] for report in reports]
    values = [float(one[figure]) for one in utility]
    lines = [f"{mean(values):.3f}"]
    if len(values) > 1:
        lines = [f"{lines[0]}±{2 * float(np.std(values, ddof=1)) / len(values) ** 0.5:.3f}"]
    ranked = [one["auc"] for one in utility if one.get("auc") is not None]
    if ranked:
        lines.append(f"AUC&nbsp;{mean(ranked):.3f}")
    if found.ratio:
        unit = reports[0]["guarantee"]["unit"]
        doubt = "" if found.expected_useful else ",&nbsp;not&nbsp;expected"
        lines.append(f"{unit}s,&nbsp;ratio&nbsp;{found.ratio:.2g}{doubt}")
    return "<br>".join(lines)


def row_of(name: str, source: Source, data: Path) -> tuple[str, list[float]]:
    """The line of one table, and what its runs spent of the epsilons that were asked for."""
    facts, seeds = facts_of(name, source, data), SEEDS[:1] if name == LONG else SEEDS
    figure, constant = "accuracy", "baseline_accuracy"
    if not facts.classes:
        figure, constant = "validation_loss", "baseline_loss"
    cells, shares, plain = [], [], {}
    for epsilon in (None, *EPSILONS):
        aim = ProposalAim(private=False) if epsilon is None else ProposalAim(epsilon=epsilon)
        found = propose_experiment(facts, aim)
        reports = list(trained(found, source, data, seeds))
        cells.append(cell(found, reports, figure))
        unit = found.spec["federation"]["validation_unit"]
        if unit not in plain:
            fitted = mean(by_scikit_learn(spec_of(found, source, seed), data) for seed in seeds)
            worst = mean(report["utility"][constant] for report in reports)
            plain[unit] = f"{worst:.3f}", f"{fitted:.3f}"
        if epsilon is not None:
            shares += [report["privacy"]["epsilon_max"] / epsilon for report in reports]
    beside = ["<br>".join(one) for one in zip(*plain.values(), strict=True)]
    return f"|{name}|{'|'.join((*beside, *cells))}|", shares


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", type=Path, required=True)
    asked.add_argument("--only", default="", help="Tables whose names have this; writes nothing.")
    given = asked.parse_args()
    names = ("table", "constant", "scikit-learn", "no&nbsp;privacy")
    lines = ["|".join(("", *names, *(f"epsilon&nbsp;{one:g}" for one in EPSILONS), ""))]
    lines.append("|---" * (len(names) + len(EPSILONS)) + "|")
    spent: list[float] = []
    for name, source in TABLES.items():
        if given.only in name:
            line, shares = row_of(name, source, given.data)
            lines.append(line)
            spent += shares
            print(line, flush=True)
    low, high = min(spent), max(spent)
    lines.append(f"\nThe runs spent {low:.3f} to {high:.3f} of the epsilon that was asked for.")
    print(lines[-1])
    if not given.only:
        write("benchmarks.usefulness", "\n".join(lines), page="usefulness.md")


if __name__ == "__main__":
    main()
