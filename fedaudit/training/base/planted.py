"""What an audit plants in a training, and what it is shown of the releases. No torch.

A cell without a plant is trained as if there were none of this: nothing is computed, drawn or
copied for it. With one, the chosen clients (or records) take part by the same coins as everybody;
only their contribution is replaced, before it is clipped. The audit sees what an adversary of the
guarantee sees, who knows everything but a coin.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from fedaudit.arrays import Floats, Floats32, Ints


@dataclass(frozen=True, kw_only=True)
class SummedRound:
    """A round of a trusted server, of the first hypothesis alone."""

    clients: Ints
    """[clients]: who sent an update, in the federation's numbers."""
    updates: Floats32
    """[clients, n]: what they sent, from before it is clipped; of planted clients what was planted.
    Zero where the client chose another hypothesis."""
    before: Floats32
    """[n]."""
    after: Floats32
    """[n]: the released hypothesis."""


@dataclass(frozen=True, kw_only=True)
class SentUploads:
    """What planted clients sent in a round; [planted clients that took part, n]."""

    clients: Ints
    """[clients]: who they are."""
    start: Floats32
    """The hypothesis that each started from."""
    uploads: Floats32


@dataclass(frozen=True, kw_only=True)
class NoisedSteps:
    """A step of private gradients, of the silos that hold planted records."""

    silos: Ints
    """[silos], in the federation's numbers."""
    known: Floats
    """[silos, n]: the sum of the clipped gradients of all other records."""
    released: Floats
    """[silos, n]: the sum of all of them, and the noise."""
    taking_part: Ints
    """The planted records that the coins drew for this step, by their number."""


class PlantedUpdates(ABC):
    """Clients whose updates are replaced."""

    clients: Ints
    """Their numbers in the federation, ascending."""

    @abstractmethod
    def updates(self, places: Ints) -> Floats32:
        """[places, n]: what the planted clients at these places add to the first hypothesis."""

    @abstractmethod
    def see_sum(self, seen: SummedRound) -> None:
        """Is shown a round of a trusted server."""

    @abstractmethod
    def see_uploads(self, seen: SentUploads) -> None:
        """Is shown a round in which clients protect their own uploads."""


class PlantedRecords(ABC):
    """Records whose gradients are replaced."""

    silos: Ints
    """[planted]: the client that holds each, in the federation's numbers; ascending."""
    rows: Ints
    """[planted]: the place of each among its client's records that train."""

    @abstractmethod
    def gradients(self, numbers: Ints) -> Floats32:
        """[numbers, n]: the gradients of the planted records of these numbers."""

    @abstractmethod
    def see_step(self, seen: NoisedSteps) -> None:
        """Is shown a step."""


Planted = PlantedUpdates | PlantedRecords
