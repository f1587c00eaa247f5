"""Scenarios: loading, templates, explanations."""
