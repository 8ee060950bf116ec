"""Runs an SQL file in the working directory, and prints the results of its SELECTs as JSON."""

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
