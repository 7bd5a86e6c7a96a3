"""The SQL of the chain; see queries/statements.py."""

from queries.statements import statements_of

statement = statements_of(__name__)
