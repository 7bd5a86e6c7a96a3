"""The SQL of the stage of mutating policies; see queries/statements.py."""

from queries.statements import statements_of

statement = statements_of(__name__)
