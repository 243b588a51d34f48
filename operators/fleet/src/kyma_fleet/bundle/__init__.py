"""`klm bundle`: an archive for support, without secrets.

`kept` says which fields of an object are kept, `words` which words of a text; `command` reads and writes.
"""
