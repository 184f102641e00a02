"""The reproduction of the paper: what notebooks and `ems reproduce` call. Its modules by subject:

a run               runner, preflight, project, steps; writers (answers and references by models)
the ten calls       calls, transcripts, documents
the paper's prompts paper_parts, paper_prompts
public data sets    upstream (read), human (their labels beside scores: stored, or computed again)
metrics and people  agreement, unit_labels, judged_labels, rubric_labels, interval_coverage
a user's own        own (metrics, scorers, stages), own_labels
choices and edits   ablation, one_call, shortening, edits
a judge again       reliability
document support    document_check, judged_support, edited_support, findver_support
related papers      published
in words, figures   verdicts; figures, people_figures, point_figures, support_figures
beside the study    claims (`make verify`), distributed_run (large sets on a Dask cluster)
"""
