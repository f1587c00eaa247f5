"""Evaluation: metrics, results, statistics, fits, advice, analytical models."""
