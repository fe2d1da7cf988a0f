"""The noise multiplier that a spec's target asks for, from public numbers of its data alone."""

from fedaudit.federations.federation import Federation
from fedaudit.federations.split import training_clients
from fedaudit.networks.shape import network_shape
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import NoisedUpdates


def with_solved_noise(spec: ExperimentSpec, federation: Federation) -> ExperimentSpec:
    """The spec with the smallest noise multiplier that meets its target; a spec without a target,
    or with a multiplier that meets it, as it is.

    Raises InvalidInputError where no multiplier meets the target, or the one that is given does
    not. The numbers of the data are those of training clients, features and classes.
    """
    privacy = spec.privacy
    if not isinstance(privacy, NoisedUpdates) or privacy.target is None:
        return spec
    shape = network_shape(spec.model, features=federation.width, classes=len(federation.classes))
    figure = mechanism_of(spec).targeted_figure(
        n=shape.n, training_clients=training_clients(federation.clients, spec.federation)
    )
    assert figure is not None, "a mechanism with a target has its figure"
    asked, noise = privacy.target.amount, privacy.noise_multiplier
    if privacy.is_unsolved:
        document = spec.model_dump(mode="json")
        document["privacy"]["noise_multiplier"] = figure.least_noise(asked)
        try:
            return parse_spec(document)
        except InvalidInputError as error:
            # What the multiplier disagrees with follows from the spec, as the multiplier does.
            faults = [FieldError(one.pointer, one.message, of_spec=True) for one in error.errors]
            raise InvalidInputError(faults) from None
    projected = figure.projected(noise)
    if not projected <= asked:
        message = (
            f"does not meet privacy.target: at {noise:g}, {figure.terms} come to {figure.name} "
            f"{at_most(projected)}, and {asked:g} is asked for; leave it out, so that the smallest "
            "one that meets the target is found, or leave the target out"
        )
        raise InvalidInputError([FieldError("/privacy/noise_multiplier", message, of_spec=True)])
    return spec
