"""`python -m millstream`: the command line."""

from millstream.cli import app

app(prog_name="millstream")
