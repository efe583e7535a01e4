"""Equations between plans, which rules and lowering use alike."""
