"""Presentation: figures, tables, reports."""
