"""Lets `python -m sim` stand in for the `sim` command."""

from sim.cli import main

if __name__ == "__main__":
    main()
