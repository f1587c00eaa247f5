"""Runs: replications, campaigns, clusters, traces, live links."""
