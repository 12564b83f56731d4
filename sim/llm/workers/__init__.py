"""Processes that make the calls of endpoints, so that one core does not have to do all of their work."""
