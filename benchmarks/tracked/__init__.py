"""Six figures of the README over the history of the project: asv run, asv publish."""
