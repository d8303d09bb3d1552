"""Results of screening: the result of one response, of several, and their JSON."""
