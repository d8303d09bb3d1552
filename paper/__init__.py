"""Reproduce the tables and figures of the BanditSIS paper: ``python -m paper table1`` and so on."""
