"""`klm get`: what there is, page by page, so that a fleet of any size costs the memory of one page.

`kinds` says for each kind what is selected and shown, `formats` how it is written, `command` reads and follows it.
"""
