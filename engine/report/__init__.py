"""Exports of the store: JSON lines, CSV, Markdown, Inspect logs, HTML pages."""
