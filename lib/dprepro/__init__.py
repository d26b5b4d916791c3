"""Recomputes the printed numbers of differential-privacy papers for language models.

Six rooms, and imports only point down this list: ``kit`` (printed numbers, the batch, the command line),
``audits`` (what tests a privacy claim), ``mechanisms`` (what makes one), ``text`` (language models and
corpora), ``stats`` (the mathematics) and ``base`` (argument checks, paths, the disk).
"""

__version__ = "0.1.0"
