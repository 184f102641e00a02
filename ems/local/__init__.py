"""Without a judge: sentences and blocks (points), words and quantities (how far texts agree), scorers
(matching and scoring), overlap (ROUGE, BLEU), encoder (BERTScore, embeddings).
"""
