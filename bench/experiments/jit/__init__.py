"""Just-in-time joins."""
