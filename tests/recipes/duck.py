"""Runs a file of SQL in the folder it is called in, and prints what its selects answer as JSON."""

import json
import sys

import duckdb

with open(sys.argv[1], encoding="utf-8") as file:
    statements = duckdb.extract_statements(file.read())
connection = duckdb.connect()
answers = []
for statement in statements:
    answer = connection.execute(statement)
    if statement.type == duckdb.StatementType.SELECT:
        answers.append(answer.fetchall())
print(json.dumps(answers))
