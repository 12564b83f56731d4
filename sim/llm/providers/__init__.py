"""Where answers come from: scripted rules, a simulated model, injected faults, real endpoints."""
