"""Earnings calls made into triplets (calls, transcripts, documents); answers by models (writers)."""
