"""Texts taken apart: an answer's blocks; a reply without thoughts, JSON and lists in it, its one number."""
