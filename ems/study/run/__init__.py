"""A run of the notebooks: runner, what is checked before (preflight), where it is (project), what notebooks
1 to 3 do with models (steps); large sets on a cluster (distributed_run).
"""
