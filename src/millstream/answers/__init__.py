"""Answers as people and other libraries take them: text, HTML, rows, Arrow, pandas, Polars."""
