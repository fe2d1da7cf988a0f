"""Prints one page in a process of its own: HTML on standard input, the PDF on standard output.

`python -m fedaudit.reports.page.print_process SECONDS MEBIBYTES`
"""

import resource
import sys

from fedaudit.reports.page.pdf import PdfUnavailableError, pdf_of

NOT_INSTALLED = 3
"""Exit status where the library is missing; standard error says which."""


def main() -> int:
    """Raises MemoryError beyond the limit; beyond the seconds of processor time it is ended."""
    seconds, mebibytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20, mebibytes * 2**20))
    page = sys.stdin.buffer.read().decode()
    try:
        pdf = pdf_of(page)
    except PdfUnavailableError as error:
        sys.stderr.write(str(error))
        return NOT_INSTALLED
    sys.stdout.buffer.write(pdf)
    return 0


if __name__ == "__main__":
    sys.exit(main())
