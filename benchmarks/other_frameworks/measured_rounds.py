"""What a framework's own process tells of the rounds that it played. Needs psutil alone."""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from benchmarks.process_tree import processor_seconds


@dataclass(frozen=True)
class Played:
    """Rounds of one process and of everything that it started."""

    versions: dict[str, str]
    rounds: int
    """That were measured."""
    processor: float
    """Seconds of these."""
    elapsed: float
    cohorts: list[list[int]]
    """Who trained, in every round from the first one on, those before the measurement included."""
    parameters: list[float]
    """After the last round."""


@dataclass(frozen=True)
class Asked:
    """What a framework's process is asked for by its command line."""

    task: str
    warm_up: int
    """Rounds before the measurement begins."""
    rounds: int
    seed: int
    out: Path

    @property
    def total(self) -> int:
        """All rounds."""
        return self.warm_up + self.rounds


@dataclass
class Watch:
    """Starts after the rounds of warming up, and stops after the last one."""

    asked: Asked
    played: int = 0
    processor: float = 0.0
    elapsed: float = 0.0
    _own: psutil.Process = field(default_factory=lambda: psutil.Process(os.getpid()))

    def round_ended(self) -> None:
        """To be called after each round."""
        self.played += 1
        if self.played in (self.asked.warm_up, self.asked.total):
            self.processor = processor_seconds([self._own]) - self.processor
            self.elapsed = time.perf_counter() - self.elapsed


def answer(play: Callable[[Asked, Watch], Played]) -> None:
    """Plays what the command line asks for, and writes what came of it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", required=True)
    parser.add_argument("--warm-up", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = Asked(**vars(parser.parse_args()))
    asked.out.write_text(json.dumps(asdict(play(asked, Watch(asked)))))
