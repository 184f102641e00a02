"""Is a point in the document? supporters (by numbers or by a judge) on document and retrieve; stage (in
a pipeline), scores (EMS-Support and others); rubrics (ratings of whole answers).
"""
