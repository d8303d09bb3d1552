"""Where features live; one kind of source a file."""
