"""Streams to relations and back: windows by time and by rows, ISTREAM, DSTREAM, samples."""
