"""The reproduction of the paper: what notebooks and `ems reproduce` call.

run         the notebooks of a profile, run one after the other
dataset     calls, references and answers
paper       the paper's prompts
people      metrics beside people's judgements
ablations   what changes with a choice: points, prompts, edits, another judge
checks      answers and claims checked against their documents
findings    results in words and in figures

Beside them own (a user's own metrics and stages) and verify (`make verify`).
"""
