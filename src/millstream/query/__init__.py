"""A registered query: its answer now, at an instant, and its changes."""

from millstream.engine.bookmarks import Bookmark
from millstream.query.context import PlanChange, QueryContext, TemplatePlan
from millstream.query.query import Query
from millstream.query.template import Template

__all__ = ["Bookmark", "PlanChange", "Query", "QueryContext", "Template", "TemplatePlan"]
