"""Numbered migrations: 0001_name.sql, applied once, in order."""
