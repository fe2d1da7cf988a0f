"""The plain way to write Algorithm 1: a Python loop over clients, torch modules and optimisers.

What the stacked engine is compared with. It does the same work in a round (choice of hypothesis,
local update, noise, k-means, validation with leave-one-out choice, counts per group), client by
client, the way one writes it from the paper.
"""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import OutcomeRules, outcome_rules
from fedaudit.federations.split import split_clients
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import Linear, Mlp
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.spec.training import FixedCohort


def build_module(spec: ExperimentSpec, features: int) -> nn.Module:
    """The spec's network as a torch module, for regression."""
    hidden, intercept = dense_layers(spec)
    return dense_module(features, hidden, intercept=intercept)


def dense_layers(spec: ExperimentSpec) -> tuple[Sequence[int], bool]:
    """Units of the hidden layers, and whether there are intercepts. Raises ValueError."""
    match spec.model:
        case Mlp(hidden=hidden, intercept=intercept):
            return hidden, intercept
        case Linear(intercept=intercept):
            return (), intercept
        case _:
            raise ValueError(f"the plain loop has no network {spec.model.kind}")


def cohort_size(spec: ExperimentSpec) -> int:
    """Clients of a round. Raises ValueError where they are drawn by coins."""
    if not isinstance(spec.training.cohort, FixedCohort):
        raise ValueError("the plain loop draws a fixed number of clients")
    return spec.training.cohort.clients


def sanitised(
    before: torch.Tensor, after: torch.Tensor, privacy: LaplaceL2, random: np.random.Generator
) -> torch.Tensor:
    """Algorithm 2, of parameters before and after the local steps."""
    n = len(after)
    radius = max(float(torch.norm(after - before)), privacy.radius_floor)
    norm = random.gamma(n, privacy.noise_multiplier * radius / n)
    direction = random.standard_normal(n)
    noise = direction / np.linalg.norm(direction) * norm
    return after + torch.from_numpy(noise).float()


class NaiveRun:
    """One experiment, one client at a time."""

    def __init__(self, spec: ExperimentSpec, federation: Federation) -> None:
        self.spec = spec
        self.federation = federation
        split = split_clients(
            federation.clients,
            validation_fraction=spec.federation.validation_fraction,
            seed=spec.seed,
        )
        self.training, self.validation = split.training, split.validation
        self.random = np.random.default_rng(spec.seed)
        torch.manual_seed(spec.seed)
        features = federation.width
        k = spec.training.hypotheses
        self.hypotheses = [build_module(spec, features) for _ in range(k)]
        self.clients = [
            (
                torch.from_numpy(federation.side_by_side[federation.own(client)]),
                torch.from_numpy(federation.target[federation.own(client)])[:, None],
            )
            for client in range(federation.clients)
        ]
        self.counts: dict[str, NDArray[np.int64]] = {}

    def loss(self, module: nn.Module, client: int) -> torch.Tensor:
        """The root mean squared error of a module on a client's rows."""
        features, target = self.clients[client]
        return rmse(module(features), target)

    def local_update(self, client: int) -> torch.Tensor:
        """What the client sends: its sanitised parameters."""
        with torch.no_grad():
            losses = [float(self.loss(module, client)) for module in self.hypotheses]
        start = self.hypotheses[int(np.argmin(losses))]
        module = copy.deepcopy(start)
        optimiser = torch.optim.SGD(module.parameters(), lr=self.spec.training.local.step_size)
        for _ in range(self.spec.training.local.epochs or 1):
            optimiser.zero_grad()
            torch.autograd.backward(self.loss(module, client))
            optimiser.step()
        before = nn.utils.parameters_to_vector(start.parameters()).detach()
        after = nn.utils.parameters_to_vector(module.parameters()).detach()
        return self.sanitise(before, after)

    def sanitise(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """Algorithm 2, where it is asked for."""
        privacy = self.spec.privacy
        if not isinstance(privacy, LaplaceL2):
            return after
        return sanitised(before, after, privacy, self.random)

    def round(self) -> float:
        """One round and its validation; returns the selection loss."""
        self.train(self.draw())
        return self.validate()

    def draw(self) -> NDArray[np.int64]:
        """The clients of a round: [cohort]."""
        return self.random.choice(self.training, cohort_size(self.spec), replace=False)

    def train(self, cohort: NDArray[np.int64]) -> None:
        """The local updates of these clients, and the hypotheses that follow from them."""
        uploads = torch.stack([self.local_update(int(client)) for client in cohort])
        current = torch.stack(
            [
                nn.utils.parameters_to_vector(module.parameters()).detach()
                for module in self.hypotheses
            ]
        )
        if len(self.hypotheses) > 1:
            means = KMeans(len(current), init=current.numpy(), n_init=1).fit(uploads.numpy())
            averages = torch.from_numpy(means.cluster_centers_)
        else:
            averages = uploads.mean(0, keepdim=True)
        for module, average in zip(self.hypotheses, averages, strict=True):
            nn.utils.vector_to_parameters(average.float(), module.parameters())

    def validate(self) -> float:
        """Selection loss, and the counts per group of predictions chosen without their row."""
        size = self.spec.training.stopping.validation_clients or len(self.validation)
        size = min(size, len(self.validation))
        sample = self.random.choice(self.validation, size, replace=False)
        smallest = []
        fairness = self.spec.fairness
        rules = outcome_rules(self.federation, fairness) if fairness.sensitive else None
        with torch.no_grad():
            for client in sample:
                features, target = self.clients[client]
                predictions = [module(features)[:, 0] for module in self.hypotheses]
                errors = torch.stack([(part - target[:, 0]) ** 2 for part in predictions])
                smallest.append(float(errors.mean(1).sqrt().min()))
                others = errors.sum(1, keepdim=True) - errors
                chosen = others.argmin(0)
                if rules is not None:
                    predicted = torch.stack(predictions)[chosen, torch.arange(len(chosen))]
                    self.count(int(client), predicted.numpy(), rules)
        return float(np.mean(smallest))

    def count(self, client: int, predicted: NDArray[np.float32], rules: OutcomeRules) -> None:
        """Adds a client's true and false positives and negatives to the counts per group."""
        federation = self.federation
        raw = federation.target_mean + predicted * federation.target_scale
        for attribute in federation.attributes:
            counts = self.counts.setdefault(
                attribute.name, np.zeros((len(attribute.values), 4), dtype=np.int64)
            )
            for row, place in enumerate(
                range(federation.first[client], federation.first[client + 1])
            ):
                rule = rules.rule_index[place]
                bound = rules.values[rule]
                above = rules.ops[rule] == "ge"
                truth = federation.raw_target[place]
                actual = truth >= bound if above else truth <= bound
                guess = raw[row] >= bound if above else raw[row] <= bound
                kind = (0 if guess else 3) if actual else (1 if guess else 2)
                counts[attribute.codes[place], kind] += 1


def dense_module(features: int, hidden: Sequence[int], *, intercept: bool) -> nn.Module:
    """Dense layers with ReLU between them and one output, for regression."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(features, width, bias=intercept), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, nn.Linear(features, 1, bias=intercept))


def rmse(predicted: Tensor, target: Tensor) -> Tensor:
    """The root mean squared error."""
    return torch.sqrt(nn.functional.mse_loss(predicted, target))
