"""Secrets that webhooks are signed with."""

from base64 import b64encode
from secrets import token_bytes

from api.http.problems import ProblemError
from infrastructure.secrets_key import SecretBox, SecretsKeyError
from infrastructure.settings import Settings

_BYTES = 32


def new_webhook_secret(settings: Settings) -> tuple[str, str]:
    """A new secret, and the same encrypted. Raises ProblemError where the service has no key."""
    try:
        box = SecretBox(settings)
    except SecretsKeyError as error:
        raise ProblemError(503, "unavailable", str(error)) from None
    secret = f"whsec_{b64encode(token_bytes(_BYTES)).decode()}"
    return secret, box.encrypt(secret)
