"""Results read back (saved), shown (alignment, page, display), pooled (pooling) and compared (comparison,
matrix).
"""
