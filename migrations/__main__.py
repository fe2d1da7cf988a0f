"""`python -P -m migrations upgrade|current [--database-url URL]`."""

import argparse
import os
import sys
from collections.abc import Sequence

from migrations.revisions import current, upgrade
from models.database import HEAD, Database


def main(arguments: Sequence[str] | None = None) -> int:
    """Migrate, or print the revision that the database is at: exit code 1 where it is not ours."""
    parser = argparse.ArgumentParser(prog="python -P -m migrations")
    parser.add_argument("command", choices=("upgrade", "current"))
    parser.add_argument("--database-url", default=os.environ.get("FEDAUDIT_DATABASE_URL"))
    options = parser.parse_args(arguments)
    if not options.database_url:
        parser.error("--database-url is missing; pass it or set FEDAUDIT_DATABASE_URL")
    revision, which = current(options.database_url), ""
    if options.command == "upgrade":
        came = f"was at {revision}" if revision else "made now"
        upgrade(options.database_url)
        revision = current(options.database_url)
        database = Database(options.database_url)
        # Without the options of a URL, which may have a password too.
        place = database.file or database.url.set(query={}).render_as_string()
        which = f"  {place}, {came}"
    sys.stdout.write(f"{revision}{which}\n")
    return 0 if revision == HEAD else 1


if __name__ == "__main__":
    sys.exit(main())
