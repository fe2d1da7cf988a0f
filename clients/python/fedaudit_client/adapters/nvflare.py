"""Keep a ledger from within NVFlare: a component of a job's server. Needs the extra `nvflare`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.job_config.defs import JobTargetType
from nvflare.widgets.widget import Widget

from fedaudit_client.adapters import plain
from fedaudit_client.client import Client

if TYPE_CHECKING:
    from fedaudit_client.adapters.canaries import Canaries

# Ways to send a task to one site after the other, or to sites that ask: rounds are not visible.
_WITHOUT_ROUNDS = ("broadcast_forever", "relay", "send")


class FedauditRounds(Widget):
    """Reserves each round before its task is sent, and declares it once it is aggregated.

    It is placed between the job's controllers and their communicators, and works with any
    controller and workflow. Sites that are refused get no task. If no site is
    admitted, or fewer than the controller waits for, the run ends before any site trains.
    """

    def __init__(
        self,
        ledger_id: str,
        event: plain.Event,
        *,
        task: str = AppConstants.TASK_TRAIN,
        group_counts: bool = False,
    ) -> None:
        """`keep_ledger` makes one. The server's environment has FEDAUDIT_URL and FEDAUDIT_API_KEY,
        which do not come into a job's configuration."""
        super().__init__()
        # Under their parameters' names, which is how they come into the job's configuration.
        self.ledger_id = ledger_id
        self.event = dict(event)
        self.task = task
        self.group_counts = group_counts
        self._client: Client | None = None
        self._ledger: plain.Ledger | None = None
        self._round: plain.OpenRound | None = None
        self._answered: dict[str, plain.Counts] = {}
        """Whose result was accepted since then, and its counts by group."""
        self._sent: set[str] = set()
        """Who got any task since the last round was declared."""

    def get_job_target_type(self) -> str:
        """The server; a job refuses any other target."""
        return str(JobTargetType.SERVER)

    def add_to_fed_job(self, job: Any, ctx: Any) -> None:
        """Into a job, which leaves this package to the server: copied with the job's own code it
        would be a part of itself."""
        job.set_app_packages([*job.job.app_packages, __package__.partition(".")[0]])
        job.add_component(ctx.comp_id, self, ctx)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Any error ends the run: NVFlare itself would log it and go on."""
        try:
            self._handle(event_type, fl_ctx)
        except Exception as error:
            reason = f"fedaudit, ledger {self.ledger_id}: {error}"
            self.log_error(fl_ctx, reason, fire_event=False)
            self.system_panic(reason, fl_ctx)

    def _handle(self, event_type: str, fl_ctx: FLContext) -> None:
        match event_type:
            case EventType.START_RUN:
                self._begin(fl_ctx)
            case AppEventType.BEFORE_TRAIN_TASK:
                self._sent.add(fl_ctx.get_peer_context().get_identity_name())
            case AppEventType.AFTER_CONTRIBUTION_ACCEPT:
                if fl_ctx.get_prop(AppConstants.AGGREGATION_ACCEPTED, False):
                    self._accepted(fl_ctx)
            case AppEventType.AFTER_AGGREGATION:
                if self._round is not None:
                    self._settle()
                elif self._sent:
                    # A site that got a task is charged for it, so this round is the last.
                    ledger, sites = self._opened(), tuple(sorted(self._sent))
                    number = ledger.next_round
                    self._round = plain.OpenRound(ledger, number, self.event, sites, {})
                    self._settle()
                    raise plain.RoundRefused(
                        number,
                        f"it ran, but not as the task {self.task!r}, so it was not reserved; "
                        "name its task by `task`",
                    )
            case EventType.ABOUT_TO_END_RUN:
                self._settle()
            case EventType.END_RUN if self._client is not None:
                self._client.close()

    def _begin(self, fl_ctx: FLContext) -> None:
        """Raises ClientError where there is no such ledger, or no service: no round is admitted."""
        for workflow in fl_ctx.get_prop(FLContextKey.RUNNER).config.workflows:
            communicator = workflow.controller.communicator
            communicator.broadcast = self._reserving(communicator.broadcast)
            for name in _WITHOUT_ROUNDS:
                setattr(communicator, name, self._refusing(getattr(communicator, name)))
        self._client = Client()
        ledger = plain.Ledger(self._client, self.ledger_id)
        _check_event(ledger, self.event)
        self._ledger = ledger

    # -- between a controller and its communicator -------------------------------------------------

    def _reserving(self, send: Callable[..., None]) -> Callable[..., None]:
        """`WFCommServer.broadcast`, to those who are admitted. Raises RoundRefused, which the
        controller answers by ending the run."""

        def broadcast(
            task: Any,
            fl_ctx: FLContext,
            targets: Sequence[Any] | None = None,
            min_responses: int = 1,
            wait_time_after_min_received: int = 0,
        ) -> None:
            if task.name == self.task:
                self._settle()
                drawn = fl_ctx.get_engine().get_clients() if targets is None else targets
                names = [one if isinstance(one, str) else str(one.name) for one in drawn]
                self._round = self._reserved(names, at_least=min_responses)
                targets, self._answered = list(self._round.admitted), {}
            send(task, fl_ctx, targets, min_responses, wait_time_after_min_received)

        return broadcast

    def _reserved(self, names: Sequence[str], *, at_least: int) -> plain.OpenRound:
        ledger = self._opened()
        opened = ledger.reserve(ledger.next_round, event=self.event, participants=names)
        if len(opened.admitted) < at_least:
            ledger.release(opened.number)
            why = f"the controller waits for {at_least} sites, and fewer have room"
            raise plain.RoundRefused(opened.number, why, opened.refused)
        return opened

    def _refusing(self, send: Callable[..., None]) -> Callable[..., None]:
        """A way to send on which no round is seen. Raises RoundRefused for the task of rounds."""

        def send_other(task: Any, *arguments: Any, **named: Any) -> None:
            if task.name == self.task:
                why = f"{task.name!r} is not broadcast to its sites, so they cannot be reserved"
                raise plain.RoundRefused(self._opened().next_round, why)
            send(task, *arguments, **named)

        return send_other

    # -- afterwards --------------------------------------------------------------------------------

    def _accepted(self, fl_ctx: FLContext) -> None:
        """Raises ValueError for a metric by group that is not four counts."""
        name, counts = fl_ctx.get_peer_context().get_identity_name(), plain.Counts()
        if self.group_counts:
            result = FLModelUtils.from_shareable(fl_ctx.get_prop(AppConstants.TRAINING_RESULT))
            counts = plain.taken_counts(dict(result.metrics or {}))
        self._answered[name] = counts

    def _settle(self) -> None:
        """Declare the round that is open: all who were asked are charged, for the server may have
        seen what they sent."""
        if self._round is None:
            return
        answered = [name for name in self._round.admitted if name in self._answered]
        groups = plain.total_counts(self._answered[name] for name in answered)
        self._round.answered(answered, groups=groups)
        self._round.end()
        self._round, self._answered, self._sent = None, {}, set()

    def _opened(self) -> plain.Ledger:
        if self._ledger is None:
            raise RuntimeError(f"ledger {self.ledger_id} could not be opened when the run began")
        return self._ledger


def keep_ledger(
    job: Any,
    ledger: plain.Ledger,
    *,
    event: plain.Event,
    task: str = AppConstants.TASK_TRAIN,
    group_counts: bool = False,
    audit: "Canaries | None" = None,
) -> None:
    """Have a job, or the job of a recipe, keep this ledger while it runs.

    `event` is what each round releases: NVFlare has no noise that a guarantee follows from. `task`
    is the name of the task that is a round. `group_counts`: sites send metrics `fedaudit/ATTRIBUTE/
    GROUP`, a list of four counts each, of the model that they received. Raises ValueError if the
    event counts on how sites are drawn, and for `audit`, since a job's server cannot test noise.
    """
    if audit is not None:
        raise ValueError(
            "canaries: the server of a job sees neither an update before its clip nor where noise "
            "is added, since both happen in a site's own code or filters; leave `audit` out, and "
            "give it to Opacus' `attach` in a site, or test the filter by `fedaudit_client.replay`"
        )
    _check_event(ledger, event)
    rounds = FedauditRounds(ledger.id, event, task=task, group_counts=group_counts)
    # A recipe has no method to give its server a component; NVFlare's trackers are
    # added like this as well.
    getattr(job, "_job", job).to_server(rounds, id="fedaudit")


def _check_event(ledger: plain.Ledger, event: plain.Event) -> None:
    if ledger.terms["unit"] == "client" and {"rate", "population"} & event.keys():
        raise ValueError(
            "how sites are drawn is not seen here, so no amplification by it is counted; "
            'state an event such as {"kind": "gaussian", "noise_multiplier": 1.0}'
        )
