"""The common fields of a spec; everything else is written as a document."""

from api.pages.spec_form.field import Field, Section
from api.pages.spec_form.layer_lines import POINTER as LAYERS
from api.pages.spec_form.layer_lines import usage
from api.pages.spec_form.method_fields import METHOD, method_fields
from api.pages.spec_form.privacy_fields import privacy_fields
from fedaudit.privacy.mechanisms import registry as mechanisms
from fedaudit.spec.fairness import DEFAULT_GROUP_CLIENTS
from fedaudit.spec.gates import PLAIN_FIGURES, GateOp
from fedaudit.spec.metrics import FAIRNESS_FIGURES

UPLOADED = "uploaded"
"""Stands for whichever registered federation is chosen."""
SYNTHETIC = (
    ("synthetic-groups", "synthetic-groups: a majority and a minority that differ by a shift"),
    ("synthetic-linear", "synthetic-linear: linear data around several parameter vectors"),
)
SCORING = "/federation/scoring/method"
CHOOSERS = (
    "/federation/source",
    SCORING,
    "/model/kind",
    METHOD,
    "/training/cohort/sampling",
    "/privacy/mechanism",
)
"""Fields on whose choice it depends which others count; so it does on WHOSE_GROUPS."""
SOURCE, MECHANISM = "/federation/source", "/privacy/mechanism"
WHOSE_GROUPS = "groups"
"""Whether the groups are those of the source, or (`own`) those in the form's own fields."""

MECHANISMS = tuple(
    (facts.name, facts.name, facts.description)
    for facts in (mechanism.facts for mechanism in mechanisms.MECHANISMS)
)
"""Value, name, and what it does."""


_OF_RECORDS = tuple(
    mechanism.facts.name for mechanism in mechanisms.MECHANISMS if mechanism.facts.unit == "record"
)


EXPERIMENT = Section(
    "experiment",
    "Experiment",
    (
        Field("/name", "Name", "text", "groups-k2"),
        Field("/seed", "Seed", initial="1", hint="A whole number; 0 is one too."),
        Field(
            "/repeats",
            "Seeds to train",
            hint="This one and the next ones, for the spread of every figure. Each costs what one "
            "costs. Empty: this one.",
        ),
        Field("/tags", "Tags", "words", hint="With commas between them."),
    ),
)
FEDERATION = Section(
    "federation",
    "Data",
    (
        Field(
            "/federation/clients_per_group",
            "Clients of each group",
            "numbers",
            "800, 200",
            "A majority and a minority.",
            only=("synthetic-groups",),
        ),
        Field("/federation/clients", "Clients", initial="200", only=("synthetic-linear",)),
        Field(
            "/federation/rows_per_client",
            "Rows of each client",
            initial="10",
            only=("synthetic-groups", "synthetic-linear"),
        ),
        Field(
            "/federation/shift",
            "Shift",
            initial="15",
            hint="Of the second group's target.",
            only=("synthetic-groups",),
        ),
        Field(
            "/federation/independent_attribute",
            "Groups at random",
            "switch",
            hint="The control: groups are dealt out regardless of the data.",
            only=("synthetic-groups",),
        ),
        Field(
            "/federation/thetas",
            "Parameter vectors",
            "vectors",
            "5, 6; 4, -4.5",
            "Numbers with commas, vectors with semicolons.",
            only=("synthetic-linear",),
        ),
        Field(
            "/federation/validation_fraction",
            "Held-out share",
            hint="Of the clients, for validation. Empty: as registered, or half of synthetic ones.",
        ),
        Field(
            SCORING,
            "Held-out rows",
            "choice",
            choices=(
                ("", "as registered, or leave-one-out"),
                ("leave-one-out", "leave-one-out: a client's other rows choose for each"),
                ("split", "split: some choose or tune, the others are scored"),
            ),
        ),
        Field(
            "/federation/scoring/fraction", "Share that is scored", initial="0.5", only=("split",)
        ),
    ),
)
MODEL = Section(
    "model",
    "Model",
    (
        Field(
            "/model/kind",
            "Kind",
            "choice",
            "linear",
            choices=(
                ("linear", "linear"),
                ("logistic", "logistic"),
                ("mlp", "mlp"),
                ("cnn-femnist", "cnn-femnist"),
                ("layers", "layers: put together below"),
            ),
        ),
        Field(
            "/model/hidden",
            "Hidden layers",
            "numbers",
            "16",
            "Units of each, with commas.",
            only=("mlp",),
        ),
        Field(
            "/model/intercept",
            "With an intercept",
            "switch",
            "on",
            only=("linear", "logistic", "mlp"),
        ),
        Field(
            LAYERS,
            "Layers",
            "layers",
            "dense 16\nrelu",
            f"One a line, first to last: {usage()}. The layer with the outputs is added behind.",
            only=("layers",),
        ),
        Field(
            "/model/input",
            "Images",
            "numbers",
            hint="Height, width and channels, for convolutions and pooling. Empty: rows.",
            only=("layers",),
        ),
        Field(
            "/model/start",
            "Start",
            "choice",
            choices=(
                ("", "as suits the model"),
                ("zeros", "zeros"),
                ("normal", "standard normal"),
                ("uniform", "uniform, small"),
            ),
            hint="What training starts from. Zeros leave several hypotheses alike.",
        ),
        Field(
            "/training/loss",
            "Loss",
            "choice",
            "rmse",
            choices=(("rmse", "rmse"), ("mse", "mse"), ("cross-entropy", "cross-entropy")),
        ),
    ),
)
TRAINING = Section(
    "training",
    "Training",
    (
        *method_fields(),
        Field(
            "/training/hypotheses",
            "Hypotheses (k)",
            initial="2",
            hint="Models that clients choose from. 1 is one model for everybody.",
        ),
        Field("/training/rounds", "Rounds at most (T)", initial="200"),
        Field(
            "/training/cohort/sampling",
            "Clients of a round",
            "choice",
            "fixed",
            choices=(("fixed", "fixed number"), ("poisson", "poisson coins")),
            hint="Coins go with gaussian-central and record-personalised.",
        ),
        Field("/training/cohort/clients", "Clients drawn (U)", initial="70", only=("fixed",)),
        Field(
            "/training/cohort/rate",
            "Chance of each client",
            initial="0.1",
            hint="1: everyone in every round.",
            only=("poisson",),
        ),
        Field("/training/local/epochs", "Local epochs (E)", hint="Empty: 1, or steps instead."),
        Field(
            "/training/local/steps",
            "Local steps",
            hint="Instead of epochs; record-personalised needs them.",
        ),
        Field("/training/local/batch_size", "Batch size", hint="Empty: a client's whole data."),
        Field("/training/local/step_size", "Step size", initial="0.1"),
        Field(
            "/training/local/optimiser",
            "Optimiser",
            "choice",
            "sgd",
            choices=(("sgd", "sgd"), ("adam", "adam"), ("rmsprop", "rmsprop")),
            only=_OF_RECORDS,
        ),
        Field(
            "/training/clustering/method",
            "Clustering",
            "choice",
            "k-means",
            choices=(("k-means", "k-means"), ("reported", "reported")),
            hint="k-means: the server clusters uploads. reported: clients say what they chose.",
        ),
        Field(
            "/training/stopping/patience",
            "Patience",
            initial="30",
            hint="Validations in a row without a lower loss. Empty: all rounds are played.",
        ),
    ),
)
PRIVACY = Section("privacy", "Privacy", privacy_fields())
GROUPS = Section(
    "groups",
    "Groups",
    (
        Field(
            "/fairness/minimum_group_size",
            "Smallest group shown",
            initial="30",
            hint="Groups with fewer scored rows are suppressed.",
        ),
        Field(
            "/fairness/minimum_group_clients",
            "Fewest clients of a group",
            initial=str(DEFAULT_GROUP_CLIENTS),
            hint="Groups whose scored rows are of fewer clients are suppressed.",
        ),
        Field(
            "/fairness/sensitive",
            "Sensitive attributes",
            "words",
            hint="With commas between them.",
            only=("own",),
        ),
        Field(
            "/fairness/intersections",
            "Combinations of them",
            "sets",
            hint="As in sex + race; semicolons between several.",
            only=("own",),
        ),
    ),
)
SECTIONS = (EXPERIMENT, FEDERATION, MODEL, TRAINING, PRIVACY, GROUPS)

RULES = "/fairness/favourable"
RULE_ROWS = 3
RULE_OPS = (("ge", "at least"), ("le", "at most"), ("in", "one of"))

GATES = "/gates"
GATE_ROWS = 4
GATE_FIGURES: tuple[str, ...] = (*PLAIN_FIGURES, *FAIRNESS_FIGURES)
GATE_OPS: tuple[tuple[GateOp, str], ...] = (("le", "at most"), ("ge", "at least"))

SUGGESTED_GROUPS: dict[str, dict[str, object]] = {
    "synthetic-groups": {
        "sensitive": ["group"],
        "favourable": [
            {"group": {"group": "g1"}, "op": "ge", "value": 0},
            {"group": {"group": "g2"}, "op": "le", "value": 15},
        ],
    },
    "synthetic-linear": {},
}
"""The groups of synthetic data, by source; those of a federation come with its registration."""
