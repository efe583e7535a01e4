"""CQL: windows, and the operators over them. `kernel_join` and `kernel_aggregate` are scripts that print."""
