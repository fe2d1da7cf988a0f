"""The log of runs: RFC 6962's tree in C2SP's forms, and nothing that leaves it goes unseen."""

import copy
import hashlib
import random
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest

from fedaudit.ledger.bundle import Evidence
from fedaudit.ledger.run_log import BEGUN, LogEntry, LogHead, LogTree, begun_digest, tiles
from fedaudit.ledger.statements import Checkpoint, Envelope, Keyring, SigningKey, link_of
from fedaudit.reports.verification.checkpoints import ReadCheckpoints
from fedaudit.reports.verification.verification import log_checks
from fedaudit.spec.canonical import canonical_hash

KEY = SigningKey.generate()
KEYRING = Keyring(trusted=[KEY.public], carried=[])
SPEC: dict[str, Any] = {"name": "a run", "gates": []}
# The leaves and roots with which Certificate Transparency's logs are tested.
LEAVES = [
    *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    7: "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def test_the_tree_is_that_of_rfc_6962() -> None:
    leaves = [bytes.fromhex(one) for one in LEAVES]
    for size, root in ROOTS.items():
        tree = LogTree.of(leaves[:size])
        assert tree.root.hex() == root
        assert LogTree.restored(size, b"".join(tree.subtrees)) == tree


def test_tiles_hold_every_entry_and_lead_to_the_root() -> None:
    entries = [str(number).encode() for number in range(600)]
    files = dict(tiles(entries))
    assert list(files) == [
        *("tile/entries/000", "tile/entries/001", "tile/entries/002.p/88", "tile/0/000"),
        *("tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2"),
    ]
    assert files["tile/entries/000"][:3] == b"\x00\x010"
    assert files["tile/0/000"][:32] == hashlib.sha256(b"\x000").digest()
    assert files["tile/1/000.p/2"][:32] == LogTree.of(entries[:256]).root


def test_a_cosigned_head_is_read_and_a_changed_or_foreign_one_is_not() -> None:
    head = LogHead("fedaudit/x", 13, LogTree.of([b"a", b"b", b"c"]).root)
    note = head.signed(KEY)
    cosigned = f"{note}\u2014 witness.example/w {'A' * 100}\n"
    assert LogHead.read(cosigned, KEYRING) == (head, KEY.public)
    sizes = [note.replace("\n13\n", f"\n{size}\n") for size in ("14", "1_3", "013")]
    for wrong in (*sizes, head.signed(SigningKey.generate()), "x", None):
        try:
            LogHead.read(wrong, KEYRING)
        except ValueError:
            continue
        raise AssertionError(wrong)


def digest_of(id_: str) -> str:
    hashes = {"spec_hash": canonical_hash(SPEC), "gates": canonical_hash(SPEC["gates"])}
    return begun_digest(id_, **hashes)


@dataclass
class Service:
    """A database with runs on one federation, and the signer that appends to their log."""

    origin: str = "fedaudit/x"
    log: list[LogEntry] = field(default_factory=list)
    runs: dict[str, list[Any]] = field(default_factory=dict)

    def begin(self, id_: str) -> None:
        number = max((one.run for one in self.log), default=0) + 1
        self.log.append(LogEntry(number, BEGUN, digest_of(id_)))
        self.runs[id_] = []

    def sign(self, id_: str, status: str, salt: int) -> None:
        entries = len(self.runs[id_]) + 1
        made = Checkpoint(id_, status, entries, entries, f"{salt:064x}", "", "").sign(KEY)
        run = max(one.run for one in self.log if one.digest == digest_of(id_))
        self.log.append(LogEntry(run, status, link_of(made)))
        self.runs[id_].append(made.as_dict())

    def head(self) -> str:
        tree = LogTree.of(one.encoded() for one in self.log)
        return LogHead(self.origin, tree.size, tree.root).signed(KEY)

    def step(self, draw: random.Random) -> None:
        """One honest thing that happens."""
        going = [id_ for id_, made in self.runs.items() if not _ended(made)]
        if not going or draw.random() < 0.3:
            self.begin(f"{draw.getrandbits(64):x}")
        else:
            status = draw.choice(("running", "running", "succeeded", "failed"))
            self.sign(draw.choice(going), status, draw.getrandbits(60))

    def found(self, earlier: str) -> bool:
        """Whether the bundles of the runs that are there, and an earlier head, show anything; every
        run that the log says has begun must be there too."""
        if not self.runs:
            return True  # there is an earlier head, and no bundle to go on from it
        begun = sum(one.kind == BEGUN for one in self.log)
        return begun != len(self.runs) or self.outcomes(earlier) != {"pass"}

    def outcomes(self, earlier: str) -> set[str]:
        """Of all checks of all bundles."""
        log = {"entries": [asdict(one) for one in self.log], "checkpoint": self.head()}
        empty = Evidence("", SPEC, [], None, [], [], log=log)
        checks = []
        for id_, made in self.runs.items():
            evidence = replace(empty, experiment_id=id_, checkpoints=made)
            read = ReadCheckpoints.read(made, Checkpoint.of, what="{}")
            checks += log_checks(evidence, read, KEYRING, earlier=[earlier])
        return {one.outcome for one in checks}


def _ended(made: list[Any]) -> bool:
    return bool(made) and Checkpoint.of(Envelope.from_dict(made[-1])).status != "running"


def _tampered(service: Service, before: Service, draw: random.Random) -> None:
    """Delete, set back or begin again, with the log or without it."""
    kind, id_ = draw.randrange(5), draw.choice(list(before.runs))
    if kind == 0:  # a run is deleted
        del service.runs[id_]
    elif kind == 1:  # a run is deleted, and the log written anew without it
        number = next(at for at, one in enumerate(before.runs, start=1) if one == id_)
        service.log = [one for one in service.log if one.run != number]
        del service.runs[id_]
    elif kind == 2:  # all is set back, and goes on otherwise
        service.log, service.runs = before.log[:-1], {**before.runs}
        last = before.log[-1]
        for own, made in before.runs.items():
            if made and link_of_value(made[-1]) == last.digest:
                service.runs[own] = made[:-1]
        logged = {one.digest for one in service.log}
        service.runs = {own: made for own, made in service.runs.items() if digest_of(own) in logged}
        for _ in range(3):
            service.step(draw)
    elif kind == 3 and service.runs[id_]:  # a run is set back, and the log is not
        service.runs[id_] = service.runs[id_][:-1]
    else:  # a run is begun again
        service.begin(id_)


def link_of_value(value: Any) -> str:
    return link_of(Envelope.from_dict(value))


@pytest.mark.parametrize("histories", [80, pytest.param(1_000, marks=pytest.mark.slow)])
def test_deletions_set_backs_and_restarts_are_all_found_and_none_invented(histories: int) -> None:
    draw = random.Random(20)
    missed, invented = 0, 0
    for _ in range(histories):
        service = Service()
        for _ in range(draw.randrange(2, 8)):
            service.step(draw)
        earlier, before = service.head(), copy.deepcopy(service)
        for _ in range(draw.randrange(3)):
            service.step(draw)
        invented += service.found(earlier)
        _tampered(service, before, draw)
        missed += not service.found(earlier)
    assert (missed, invented) == (0, 0)


def test_a_head_of_the_log_of_other_data_proves_nothing() -> None:
    service, other = Service(), Service(origin="fedaudit/y")
    for one in (service, other):
        one.begin("a")
        one.sign("a", "succeeded", 1)
    assert service.outcomes(other.head()) == {"pass", "unchecked"}
    # Begun before there was a log, or an audit: no proof, and no fault.
    empty = Evidence("a", SPEC, [], None, [], [])
    read = ReadCheckpoints.read([], Checkpoint.of, what="{}")
    [found] = log_checks(empty, read, KEYRING, earlier=[service.head()])
    assert (found.name, found.outcome) == ("log.earlier", "unchecked")
    assert not list(log_checks(empty, read, KEYRING, earlier=[]))
