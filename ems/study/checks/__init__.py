"""Answers beside the document: the kit's own (document_check), by a judge (judged_support), and
FinDVer's claims (findver_support).
"""
