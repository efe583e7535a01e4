"""The service: a database over HTTP, with followers, tokens and limits."""
