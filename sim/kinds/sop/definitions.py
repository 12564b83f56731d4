"""Defines the words of scenarios for employees that follow procedures; imported when a file uses one."""

from sim.kinds.sop import channels, employee, jobs, section, worker

__all__ = ["channels", "employee", "jobs", "section", "worker"]
