"""Limits of model calls: pacing and concurrency, retries, circuit breakers, money."""
