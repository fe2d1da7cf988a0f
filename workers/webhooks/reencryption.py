"""Encrypts stored secrets anew: `python -P -m workers.webhooks.reencryption`.

After a new key was put above the old one in FEDAUDIT_SECRETS_KEY_FILE, and before the old line is
removed. Receivers notice nothing: the secrets stay what they are.
"""

import sys

from sqlalchemy.exc import SQLAlchemyError

from infrastructure.secrets_key import SecretBox, SecretsKeyError
from infrastructure.settings import Settings
from models.database import Database
from models.repositories import AuditLogRepository
from models.repositories.webhooks import StoredSecretRepository
from workers.start import start


def encrypt_anew(settings: Settings, database: Database) -> int:
    """Encrypt every secret with the first key of the file; returns of how many webhooks.

    All of them or none. Raises SecretsKeyError where one was encrypted with a key that the file
    lacks, SQLAlchemyError.
    """
    box = SecretBox(settings)
    with database.write() as session:
        counts = StoredSecretRepository(session).replace(box.encrypt_anew)
        for project_id, count in counts.items():
            AuditLogRepository(session, project_id).enter(
                "webhook.secrets-encrypted",
                project_id,
                by=None,
                origin="command-line",
                webhooks=count,
            )
        return sum(counts.values())


def main() -> int:
    """The command; prints how many webhooks have a secret."""
    settings, database = start("fedaudit-secrets")
    try:
        count = encrypt_anew(settings, database)
    except SecretsKeyError as error:
        sys.stderr.write(f"nothing was changed: {error}\n")
        return 1
    except SQLAlchemyError as error:
        sys.stderr.write(f"nothing was changed: {getattr(error, 'orig', None) or error}\n")
        return 1
    finally:
        database.dispose()
    sys.stdout.write(f"{count}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
