"""The SQL of derived data; see queries/statements.py."""

from queries.statements import statements_of

statement = statements_of(__name__)
