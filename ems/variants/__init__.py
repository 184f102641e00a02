"""Ways to evaluate that are not the paper's: joint (one call for an answer), sides (each point against the
whole other side), finer (scores between the whole numbers), references (the best of several).
"""
