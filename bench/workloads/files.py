"""Parquet files of random rows, for Millstream and plain Spark to read, and streams declared over them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl


def write_files(directory: Path, rows: pl.DataFrame, files: int) -> Path:
    directory.mkdir(parents=True)
    size = -(-rows.height // files)
    for number in range(files):
        path = directory / f"{number:04d}.parquet"
        rows.slice(number * size, size).write_parquet(path)
        os.utime(path, (number, number))  # Spark reads files in this order
    return directory


def random_rows(count: int, keys: int, seed: int) -> pl.DataFrame:
    dice = np.random.default_rng(seed)
    millis = pl.Series("ts", np.arange(count) * 1_000).cast(pl.Datetime("us", "UTC"))
    return pl.DataFrame({"k": dice.integers(0, keys, count), "v": dice.integers(0, 1000, count)}).with_columns(millis)


def wide_rows(count: int) -> pl.DataFrame:
    dice = np.random.default_rng(7)
    values = {name: dice.integers(0, 100, count, dtype=np.int32) for name in "abcde"}
    return pl.DataFrame({"idx": np.arange(count), **values})


def source(name: str, columns: str, directory: Path, files: int | None = None) -> str:
    option = "" if files is None else f", 'maxFilesPerTrigger' '{files}'"
    return f"CREATE STREAM {name} ({columns}) TIMESTAMP BY {{}} USING parquet OPTIONS ('path' '{directory}'{option});"
