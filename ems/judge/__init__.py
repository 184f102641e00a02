"""Asking a model: client (`LLMJudge`), calls (many at once), wire (one endpoint's dialect), offered (is the
model still there), store (replies saved and replayed), budget (what it costs), endpoint (a model in a
profile), unread (replies that give nothing).
"""
