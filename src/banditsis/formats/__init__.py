"""Files of every supported format, opened as sources."""
