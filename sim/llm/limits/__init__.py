"""What bounds model calls: rate limits and concurrency, retries, circuit breakers, money."""
