"""Synchronised rounds: agents advance in their own simulated time, under a policy that keeps causes before effects."""
