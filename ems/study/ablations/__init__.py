"""Stages, points and edits varied: ablation, one_call, shortening, edits; a judge again: reliability."""
