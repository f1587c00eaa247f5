"""Evaluation: metrics, results, statistics, fits, advice, closed forms."""
