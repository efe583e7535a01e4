"""An evaluator that gets TEXT: what is generated goes to DuckDB as it is written, and never through our parser.

`tests/oracle` reads queries with Millstream's own dialect, so it cannot see what that ignores. Here every query is
written twice by its generator, once as CQL and once as DuckDB's SQL over instantaneous relations; windows, tables and
the relation-to-stream operators are computed from raw elements by docs/semantics.md. Nothing of Millstream is imported
but its public interface, in `driver.py`; `test_imports.py` sees to it.
"""
