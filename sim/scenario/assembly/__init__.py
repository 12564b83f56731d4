"""From a checked scenario to a world with its agents and models, ready to run."""
