"""The pages of docs/start, executed literally in an empty folder and home; the clusters are judged after each step.

Start reading at `reader`. The pages share one playground, in which each of them leaves what the others need.
"""
