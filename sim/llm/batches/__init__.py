"""Calls that an endpoint answers in batches: later than others, and at a lower price.

- `settings`: what the operator sets; `lines`: requests and results as lines of a file
- `notes`: what a run must remember of its batches if it is killed; `place`: the run that the batches belong to
- `provider`: collects requests until the run cannot continue, submits them, and waits for the answers
"""
