"""The providers of answers: scripted rules, a simulated model, injected faults, real endpoints."""
