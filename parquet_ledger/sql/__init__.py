"""Named queries, in portable SQL."""
