"""The dashboards, rules and configurations of Prometheus and Grafana. It has no code; see docs/watch.md."""
