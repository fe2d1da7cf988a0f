"""The command line: every command by its name, and where it is."""

import sys
from typing import Annotated, NoReturn

import typer

from fedaudit.cli.display.output import say, write_json, write_line
from fedaudit.cli.failures import CommandError, ExitCode
from fedaudit.cli.lazy import Place, lazy_group
from fedaudit.cli.options import AsJson


def _places(module: str, **helps: str) -> dict[str, Place]:
    return {
        name.replace("_", "-"): Place(f"fedaudit.cli.{module}", said)
        for name, said in helps.items()
    }


PLACES = {
    **_places(
        "service.commands",
        up="Start the whole service: API, worker and sweeper. Ctrl-C stops it.",
        worker="Train what the service's queue hands out, until stopped.",
        migrate="Bring the service's database up to this version's schema.",
    ),
    **_places(
        "run",
        run="Train and audit in this process, without a service, and print the report.",
    ),
    **_places("submit", submit="Hand an experiment to the service at FEDAUDIT_URL."),
    **_places(
        "experiments",
        watch="Follow an experiment until it ends.",
        list="List experiments in every state, newest first.",
        show="Show how an experiment stands, and its main figures once it has ended.",
        cancel="End an experiment that is queued or runs; what it has spent stays spent.",
        retry="Queue the spec of a failed or cancelled experiment again, as a new experiment.",
        export="Write an experiment's ledger, rounds, fairness or records to a file or to standard "
        "output.",
        model="Write an experiment's trained hypotheses as safetensors.",
    ),
    **_places(
        "reports",
        report="Fetch the audit report of a finished experiment.",
        reports="List reports by any of their figures.",
        compare="Put reports side by side: figures, specs and Pareto fronts.",
    ),
    **_places(
        "sign_off",
        sign_off="Sign a report off; it cannot be changed or taken back. Needs the scope "
        "reports:sign.",
    ),
    **_places(
        "gate",
        gate="Exit 0 where the experiment passes its gates, 1 where it fails, 3 where it is "
        "not decided.",
    ),
    **_places(
        "submitted_sweep",
        sweep="Hand an experiment for every combination of values to the service at FEDAUDIT_URL.",
    ),
    **_places("sweeps", sweeps="Many experiments as one: see docs/sweeps.md."),
    **_places(
        "attack",
        attack="Train a spec here and carry out its attacks: what each tried, found and does not "
        "show.",
    ),
    **_places(
        "replay",
        replay="Train beside a neighbour with the same coins and noise, and say where a guarantee "
        "breaks.",
    ),
    **_places(
        "verify",
        verify="Exit 0 where all agrees under a trusted key, 1 where it was altered, 3 without "
        "such a key.",
    ),
    **_places(
        "audit",
        audit="Compare predictions with the truth, group by group, in this process; nothing is "
        "trained.",
    ),
    **_places(
        "budget",
        budget="Show what may be spent on a federation's data, and what was; or set one total.",
    ),
    **_places(
        "federations",
        federations="The data that experiments name by id, at the service of FEDAUDIT_URL.",
    ),
    **_places(
        "ledgers",
        ledgers="Ledgers of trainings that run elsewhere, at the service of FEDAUDIT_URL.",
    ),
    **_places(
        "policies",
        policies="Gates under names, at the service of FEDAUDIT_URL; see `gate --policy-name`.",
    ),
    **_places(
        "artifacts",
        artifacts="Parameters that experiments start from: safetensors files, by the hash of their "
        "content.",
    ),
    **_places(
        "webhooks",
        webhooks="Addresses that the service at FEDAUDIT_URL tells of events; see "
        "docs/webhooks.md. Needs a key with the scope admin.",
    ),
    **_places(
        "publish",
        publish="Send a report to the tools that a team has: MLflow, Weights & Biases, "
        "OpenLineage.",
    ),
    **_places(
        "keys",
        keys="API keys: `create` works on the database itself, `list`, `rotate` and `revoke` over "
        "HTTP. `signing` makes a key to sign with.",
    ),
    **_places(
        "signing_keys",
        signing_keys="The keys that ledgers and reports are signed with: `rotate` works on the "
        "key's file, `compromised` on the database, `list` over HTTP.",
    ),
    **_places(
        "audit_log",
        audit_log="Who did what in the project; see docs/people.md. Needs a key with the scope "
        "admin.",
    ),
}

app = typer.Typer(
    name="fedaudit",
    cls=lazy_group(PLACES),
    help="Privacy and fairness audits of federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> NoReturn:
    """Run the command line; faults of the caller end it with a message and an exit code."""
    try:
        app()
    except CommandError as error:
        say(f"fedaudit: {error}")
        sys.exit(error.code)
    except Exception as error:
        errors = sys.modules.get("fedaudit.spec.errors")  # imported where it can be raised
        if errors is None or not isinstance(error, errors.InvalidInputError):
            raise
        from fedaudit.cli.specs import explain

        say(f"fedaudit: {explain(error.errors)}")
        sys.exit(ExitCode.USAGE)
    sys.exit(ExitCode.DONE)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Privacy and fairness audits of federated learning."""


@app.command()
def version(*, as_json: AsJson = False) -> None:
    """Print the version."""
    from fedaudit.version import __version__

    if as_json:
        write_json({"version": __version__}, pretty=False)
    else:
        write_line(f"fedaudit {__version__}")


if __name__ == "__main__":
    main()
