"""Looking after directories: whether all of one is as it was written, and bringing one to the present format."""
