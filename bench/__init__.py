"""Measures of speed and memory; `python -m bench` prints them."""
