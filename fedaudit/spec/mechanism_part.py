"""What every mechanism of a spec answers for the rest of the spec."""

from abc import abstractmethod
from typing import ClassVar

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.training import Training


class MechanismPart(SpecPart):
    """A mechanism, which has no answer by default: one that leaves any out cannot be made."""

    protects: ClassVar[bool] = True
    """Whether anything bounds what the models disclose."""

    @property
    @abstractmethod
    def has_noise_per_layer(self) -> bool:
        """Whether each layer of the network has separate noise."""

    @property
    @abstractmethod
    def budget_column(self) -> str | None:
        """The column of the table with each record's budget; None where there is none."""

    @property
    @abstractmethod
    def draws_by_record(self) -> bool:
        """Whether something is drawn for each record: which validate, or with which budgets."""

    @property
    @abstractmethod
    def initial_clip(self) -> float | None:
        """What a trusted server clips updates of the first round to; None without one."""

    @abstractmethod
    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        """Every fault between the mechanism and the rest, each with its field and the remedy."""


class UpdateMechanism(MechanismPart):
    """A mechanism of whole updates, for which no record has a budget."""

    mechanism: str
    gains_from_coins: ClassVar[bool]
    """Whether secret coins for clients lower the cost of a round."""
    hides_choices: ClassVar[bool]
    """Whether its figures hold where clients choose from several hypotheses."""
    budget_column: ClassVar[None] = None
    draws_by_record: ClassVar[bool] = False

    @property
    def has_noise_per_layer(self) -> bool:
        return False

    @property
    def initial_clip(self) -> float | None:
        return None

    def disagreements(self, *, training: Training, federation: FederationSpec) -> Refusals:
        # Held-out rows of clients that train must decide nothing of what is released.
        held_out = federation.holds_out_rows and self.protects
        if held_out and training.stopping.patience is not None:
            yield refuse_at(
                "/training/stopping/patience",
                f"would end training by held-out rows without noise, so that {self.mechanism} "
                "covers no model; use null, or `federation.validation_unit: client`",
            )
        if training.asked_clients is None and not self.gains_from_coins:
            yield refuse_at(
                "/training/cohort/sampling",
                f"{self.mechanism} gains nothing from secret coins: use {{sampling: fixed, "
                "clients: U}, or the mechanism `gaussian-central`",
            )
        if not self.hides_choices:
            yield from check_one_hypothesis(self.mechanism, training)


def check_one_hypothesis(mechanism: str, training: Training) -> Refusals:
    """Refuses several hypotheses, where which one a client chose is not hidden."""
    if training.hypotheses > 1:
        yield refuse_at(
            "/training/hypotheses",
            f"{mechanism} does not hide which hypothesis a client chose, so nothing that it states "
            "would hold for several; use 1, or the mechanism `gaussian-central` or `laplace-l2`",
        )
