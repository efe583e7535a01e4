"""Which filter or SteM a chunk of rows goes to next."""
