"""Metrics beside people's judgements: public sets read (upstream) and scored (human), agreement, labels of
units, of a judge and of one's own, rubrics, coverage of intervals, printed tables of related papers.
"""
