"""`python -m benchmarks`: rounds a second; see `benchmarks.rounds` for the options."""

from benchmarks.rounds import main

main()
