"""From text to a bound logical plan: parsing, names, types, kinds, defaults."""
