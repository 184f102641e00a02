"""Without a judge: sentences (points), words and quantities (how far texts agree), scorers (matching and
scoring), encoder (BERTScore, embeddings).
"""
