"""The ranks' tensors, by torch.distributed: over gloo between processors, NCCL between GPUs."""

import hmac
import os
import sys
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed
from torch import Tensor

LOOPBACK = dict.fromkeys(
    ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo0" if sys.platform == "darwin" else "lo"
)
"""Environment of every rank: what clients compute never leaves the machine."""
_PROOF_BYTES = 32


def backend_of(devices: Sequence[str]) -> str:
    """How ranks on these devices exchange tensors."""
    only_cuda = all(torch.device(one).type == "cuda" for one in devices)
    return "nccl" if only_cuda else "gloo"


class RankGroup:
    """This process among the ranks; one at a time in a process."""

    def __init__(
        self,
        device: torch.device,
        *,
        backend: str,
        store: str,
        secret: bytes,
        rank: int,
        size: int,
        seconds: float,
    ) -> None:
        """Returns once all ranks have come, and raises RuntimeError where one does not, or somebody
        else in its place.

        `store`: a file that all of them see; `secret`: what they alone know; `seconds`: the most
        that this rank waits for another.
        """
        self._device = device
        # gloo knows the processor's memory alone.
        self._between = device if backend == "nccl" else torch.device("cpu")
        os.environ.update(LOOPBACK)
        torch.distributed.init_process_group(
            backend,
            init_method=f"file://{store}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=seconds),
        )
        if backend == "gloo":
            try:
                _meet(secret, rank=rank, size=size)
            except RuntimeError:
                self.close()
                raise

    def broadcast(self, theta: Tensor) -> Tensor:
        """The first rank's `theta`, on this rank's device; the others give one of its shape."""
        sent = theta.to(self._between).contiguous()
        torch.distributed.broadcast(sent, src=0)
        return sent.to(self._device)

    def send(self, vector: Tensor) -> "Sending":
        """Begins to send a copy of a vector [n] to the first rank."""
        return Sending(vector.to(self._between, copy=True), to=0)

    def receive(self, size: int, *, rank: int) -> Tensor:
        """A vector [size] of another rank, on this rank's device."""
        vector = torch.empty(size, device=self._between)
        torch.distributed.recv(vector, src=rank)
        return vector.to(self._device)

    def close(self) -> None:
        """Leaves the others."""
        torch.distributed.destroy_process_group()


def _meet(secret: bytes, *, rank: int, size: int) -> None:
    """Makes sure of every connection: gloo asks nobody who connects to it, and any user of the
    machine may. NCCL asks for a random number that is in the store.

    Raises RuntimeError where the other end does not know the secret.
    """
    others = [one for one in range(size) if one != rank]
    sent = []
    for one in others:
        proof = torch.frombuffer(bytearray(_proof(secret, rank, one)), dtype=torch.uint8)
        sent.append(Sending(proof, to=one))
    for one in others:
        found = torch.empty(_PROOF_BYTES, dtype=torch.uint8)
        torch.distributed.recv(found, src=one)
        if not hmac.compare_digest(bytes(found.tolist()), _proof(secret, one, rank)):
            raise RuntimeError(f"somebody else has connected in place of rank {one}")
    for sending in sent:
        sending.wait()


def _proof(secret: bytes, sender: int, receiver: int) -> bytes:
    """Of no use to whoever receives it: no other connection has the same."""
    return hmac.digest(secret, f"{sender} to {receiver}".encode(), "sha256")


class Sending:
    """A vector on its way to another rank, which is kept until it has arrived."""

    def __init__(self, vector: Tensor, *, to: int) -> None:
        self._vector = vector
        self._work = torch.distributed.isend(vector, dst=to)

    def wait(self) -> None:
        """Until it has arrived."""
        if self._work is not None:
            self._work.wait()
